/** Keeps tokens out of what is printed and logged. */

/** `?token=…` in URLs and `Authorization` values, wherever they stand in a text. */
export function redact(text: string): string {
  return text
    .replace(/([?&]token=)[^&\s"']+/gi, '$1[token]')
    .replace(/\b(token|bearer) +[\x21-\x7e]{8,}/gi, '$1 [token]');
}

/** Fields that a logged object may have by accident. */
export const SECRET_FIELDS = [
  'token',
  '*.token',
  'headers.authorization',
  'headers.cookie',
  '*.headers.authorization',
  '*.headers.cookie',
  'headers["x-xsrftoken"]',
  '*.headers["x-xsrftoken"]'
];
