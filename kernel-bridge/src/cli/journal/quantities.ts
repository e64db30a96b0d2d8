/** Sizes and durations as people write them: `20GiB`, `500MB`, `14d`, `90m`. */
import { InvalidArgumentError } from 'commander';

const SIZE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  k: 1024,
  kib: 1024,
  m: 1024 ** 2,
  mib: 1024 ** 2,
  g: 1024 ** 3,
  gib: 1024 ** 3,
  t: 1024 ** 4,
  tib: 1024 ** 4
};

const SECOND_MS = 1000;
const DURATION_UNITS: Readonly<Record<string, number>> = {
  s: SECOND_MS,
  m: 60 * SECOND_MS,
  h: 3600 * SECOND_MS,
  d: 86_400 * SECOND_MS,
  w: 7 * 86_400 * SECOND_MS
};

export function parseSize(text: string): number {
  return quantity(text, SIZE_UNITS, 'A size is a number with a unit, for example 500MB or 20GiB.');
}

export function parseDuration(text: string): number {
  return quantity(
    text,
    DURATION_UNITS,
    'A duration is a number with a unit s, m, h, d or w, for example 14d.'
  );
}

function quantity(text: string, units: Readonly<Record<string, number>>, rule: string): number {
  const [, digits, unit] = /^(\d{1,15}(?:\.\d{1,6})?) ?([a-z]{0,3})$/i.exec(text.trim()) ?? [];
  const factor = unit === undefined ? undefined : units[unit.toLowerCase()];
  if (digits === undefined || factor === undefined) throw new InvalidArgumentError(rule);
  return Math.round(Number(digits) * factor);
}
