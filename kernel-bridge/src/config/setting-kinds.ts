/** The kinds of settings: how a value is parsed from a file (JSON or TOML) and from text (a flag, an environment variable). */
import { normalOrigin } from '../http/origin-policy.js';

export interface Kind<T> {
  /** Describes the expected value, as the text after "expected". */
  readonly expected: string;
  /** The value, or `INVALID`. */
  fromFile(value: unknown): T | typeof INVALID;
  fromText(text: string): T | typeof INVALID;
  /** The value in the form for a file. */
  toFile(value: T): unknown;
}

export const INVALID = Symbol('invalid');

export function text(expected: string, test = (given: string) => given.trim() !== ''): Kind<string> {
  const check = (value: unknown) => (typeof value === 'string' && test(value) ? value : INVALID);
  return { expected, fromFile: check, fromText: check, toFile: value => value };
}

interface NumberOptions {
  readonly what: string;
  readonly min: number;
  readonly max: number;
  readonly whole: boolean;
}

export function number({ what, min, max, whole }: NumberOptions): Kind<number> {
  const check = (value: unknown) => {
    if (typeof value !== 'number' || !(value >= min && value <= max)) return INVALID;
    return whole && !Number.isInteger(value) ? INVALID : value;
  };
  const limit = max === Number.MAX_SAFE_INTEGER ? `from ${min} on` : `from ${min} to ${max}`;
  return {
    expected: `${what}: ${whole ? 'a whole number' : 'a number'} ${limit}`,
    fromFile: value => check(typeof value === 'bigint' ? Number(value) : value),
    fromText: given => check(/^-?\d{1,16}(\.\d{1,6})?$/.test(given) ? Number(given) : NaN),
    toFile: value => value
  };
}

const BOOLEANS = new Map<string, boolean>([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['false', false],
  ['0', false],
  ['no', false]
]);

export const truth: Kind<boolean> = {
  expected: 'true or false',
  fromFile: value => (typeof value === 'boolean' ? value : INVALID),
  fromText: given => BOOLEANS.get(given.toLowerCase()) ?? INVALID,
  toFile: value => value
};

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40
};

/** A number of bytes, or `512 MiB`. */
export function bytes(min: number, max = Number.MAX_SAFE_INTEGER): Kind<number> {
  const check = (value: number) =>
    Number.isSafeInteger(value) && value >= min && value <= max ? value : INVALID;
  const parse = (given: string) => {
    const [, count, unit] = /^(\d{1,15}) ?([KMGT]iB|)$/.exec(given.trim()) ?? [];
    return count === undefined ? INVALID : check(Number(count) * (UNITS[unit ?? ''] ?? NaN));
  };
  const limit = max === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${max}`;
  return {
    expected: `bytes, at least ${min}${limit}: a whole number, or text like "512 MiB"`,
    fromFile: value =>
      typeof value === 'number' ? check(value) : typeof value === 'string' ? parse(value) : INVALID,
    fromText: parse,
    toFile: value => value
  };
}

/** One text, or several. In a variable or a single text they are separated by commas. */
export function list(what: string, one: (item: string) => string | typeof INVALID): Kind<readonly string[]> {
  const check = (items: readonly unknown[]) => {
    const checked = items.map(item => (typeof item === 'string' ? one(item) : INVALID));
    return checked.includes(INVALID) ? INVALID : (checked as string[]);
  };
  const split = (given: string) =>
    check(
      given
        .split(',')
        .map(item => item.trim())
        .filter(item => item !== '')
    );
  return {
    expected: `${what}, or a list of them`,
    fromFile: value =>
      typeof value === 'string' ? split(value) : Array.isArray(value) ? check(value) : INVALID,
    fromText: split,
    toFile: value => value
  };
}

/** Exact origins only: `*` and patterns admit pages that the user did not consider. */
export const origins = list('an origin like http://127.0.0.1:8888 (no * and no path)', item => {
  try {
    return normalOrigin(item);
  } catch {
    return INVALID;
  }
});

const NUMBERED_LEVELS: Readonly<Record<number, string>> = {
  10: 'debug',
  20: 'info',
  30: 'warn',
  40: 'error',
  50: 'fatal'
};
const LEVEL_NAMES = new Map([
  ...['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((name): [string, string] => [name, name]),
  ['warning', 'warn'],
  ['critical', 'fatal']
]);

/** Our names, and Jupyter's names and numbers for them. */
export const logLevel: Kind<string> = {
  expected: 'trace, debug, info, warn, error, fatal, or one of the numbers 10, 20, 30, 40, 50',
  fromFile: value =>
    typeof value === 'number'
      ? (NUMBERED_LEVELS[value] ?? INVALID)
      : typeof value === 'string'
        ? logLevel.fromText(value)
        : INVALID,
  fromText: given => LEVEL_NAMES.get(given.toLowerCase()) ?? NUMBERED_LEVELS[Number(given)] ?? INVALID,
  toFile: value => value
};

/** The path of a socket; `true` for the default path, an empty text for none. */
export const socket: Kind<string | true> = {
  expected: 'the path of a unix socket, or true for run/gateway.sock in the state folder',
  fromFile: value => (value === true || typeof value === 'string' ? value : INVALID),
  fromText: given => (given === 'true' ? true : given),
  toFile: value => value
};
