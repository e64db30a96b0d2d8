/**
 * Texts of a remote machine, before they reach a terminal, a page or a log. They may contain anything: sequences that control the
 * terminal, line ends that make one message look like two, marks that reverse the direction of the following text, megabytes.
 */

/** CSI, strings (OSC, DCS) and character sets as a whole, then their remains. 8-bit forms too. */
const SEQUENCES =
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]P]|[\x9d\x90])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-OQ-Z^-~]/g;
const CONTROLS = /[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g;
/** Overrides and isolates (UAX 9), and invisible characters. */
const INVISIBLE_CHARACTERS = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const LONE_SURROGATES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Longer than any message of TPULab. */
const MAX_CHARACTERS = 4_000;
/** Colours and weights, which outputs of kernels use. */
const COLOURS = /^\x1b\[[0-9;:]*m$/;
const TERMINAL_CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** One line of plain text. */
export function plainText(text: string, maxCharacters = MAX_CHARACTERS): string {
  // Far more than the result, so that a sequence at the border is complete, and far less than a sender could send.
  const plain = text
    .slice(0, 4 * maxCharacters)
    .replace(SEQUENCES, '')
    .replace(CONTROLS, ' ')
    .replace(INVISIBLE_CHARACTERS, '');
  const cut = plain.length > maxCharacters ? `${plain.slice(0, maxCharacters - 1)}…` : plain;
  return cut.replace(LONE_SURROGATES, '\ufffd');
}

/** Lines of plain text, such as ssh prompts. */
export function plainLines(text: string, maxCharacters = MAX_CHARACTERS): string {
  const lines = text.slice(0, maxCharacters).split(/\r?\n/);
  return lines.map(line => plainText(line, maxCharacters)).join('\n');
}

/** The same for every text in a JSON value; numbers that JSON cannot represent become 0. */
export function plainValue<T>(value: T): T {
  return plain(value) as T;
}

function plain(value: unknown): unknown {
  if (typeof value === 'string') return plainText(value);
  if (typeof value === 'number') return Number.isFinite(value) ? value : 0;
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [plainText(key, 256), plain(each)]));
}

/** For a terminal: lines, tabs and colours stay; nothing moves the cursor, sets the window title or fills the clipboard. */
export function forTerminal(text: string): string {
  const parts = text.split(/(\x1b\[[0-?]*[ -/]*[@-~])/);
  return parts
    .map(part => (COLOURS.test(part) ? part : part.replace(SEQUENCES, '').replace(TERMINAL_CONTROLS, '')))
    .join('');
}

/** JSON on a terminal: the control characters that JSON itself does not escape. */
export function forTerminalAsJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    found => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`
  );
}
