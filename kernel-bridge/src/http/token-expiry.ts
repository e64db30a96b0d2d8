/** When a token ends: `--expires 12h`, `30d`, or a date. */
import { TokenError } from './token-error.js';

const UNIT_MS: Readonly<Record<string, number>> = {
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000
};

/** @throws TokenError `token_expiry_invalid` for what is neither, or lies in the past */
export function parseExpiry(text: string, now: Date): Date {
  const [, count, unit] = /^(\d{1,6})([mhdw])$/.exec(text) ?? [];
  const unitMs = UNIT_MS[unit ?? ''];
  const at =
    count !== undefined && unitMs !== undefined
      ? new Date(now.getTime() + Number(count) * unitMs)
      : /^\d{4}-\d\d-\d\d/.test(text)
        ? new Date(text)
        : new Date(NaN);
  if (!(at.getTime() > now.getTime()) || at.getUTCFullYear() > 9999) {
    throw new TokenError(
      'token_expiry_invalid',
      `"${text}" is not a time in the future; write 90m, 12h, 30d, 8w, or a date like 2030-01-31.`
    );
  }
  return at;
}
