import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const CHECKOUT = fileURLToPath(new URL('../../../', import.meta.url));
const FOLDERS = ['kernel-bridge/src', 'tests'];
const IS_TEST = /\.spec\.tsx?$|(^|\/)test_\w+\.py$/;

/** `| 12 | text | specs |`, where the specs are files in backticks. */
const ROW = /^\| (\d+) \| ([^|]+) \| ([^|]+) \|$/;
/** The title of a test, or the docstring of one, that begins with the numbers of requirements. */
const TAGS = /['"`]((?:\[\d{1,2}\] )+)\S/g;

const REQUIREMENTS = 23;

function testFiles(): string[] {
  return FOLDERS.filter(folder => existsSync(path.join(CHECKOUT, folder))).flatMap(folder =>
    readdirSync(path.join(CHECKOUT, folder), { recursive: true, encoding: 'utf8' })
      .map(name => path.posix.join(folder, name.split(path.sep).join('/')))
      .filter(name => IS_TEST.test(name) && !name.includes('node_modules'))
  );
}

/** For each requirement number, the sorted list of files with a test of that number. */
function tagged(): Map<number, string[]> {
  const found = new Map<number, Set<string>>();
  for (const file of testFiles()) {
    for (const [, tags = ''] of readFileSync(path.join(CHECKOUT, file), 'utf8').matchAll(TAGS)) {
      for (const [digits] of tags.matchAll(/\d+/g)) {
        const files = found.get(Number(digits)) ?? new Set();
        found.set(Number(digits), files.add(file));
      }
    }
  }
  return new Map([...found].sort(([a], [b]) => a - b).map(([number, files]) => [number, [...files].sort()]));
}

function documented(): Map<number, { meaning: string; files: string[] }> {
  const text = readFileSync(path.join(CHECKOUT, 'docs', 'conformance.md'), 'utf8');
  const rows = new Map<number, { meaning: string; files: string[] }>();
  for (const line of text.split('\n')) {
    const [, number, meaning = '', specs = ''] = ROW.exec(line) ?? [];
    if (number === undefined) continue;
    const files = [...specs.matchAll(/`([^`]+)`/g)].map(([, file = '']) => file);
    rows.set(Number(number), { meaning: meaning.trim(), files });
  }
  return rows;
}

describe('docs/conformance.md', () => {
  it('has a row for every requirement, in order', () => {
    expect([...documented().keys()]).toEqual(Array.from({ length: REQUIREMENTS }, (_, n) => n + 1));
    for (const [number, { meaning }] of documented())
      expect(meaning, `row ${number}`).toMatch(/^[A-Z`].{20,}\.$/);
  });

  it('names for each requirement exactly the files that have a test with its number', () => {
    const listed = Object.fromEntries([...documented()].map(([number, { files }]) => [number, files]));
    expect(listed).toEqual(Object.fromEntries(tagged()));
  });
});
