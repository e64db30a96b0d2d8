import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const SOURCES = new URL('../', import.meta.url);
const TEXT = readFileSync(new URL('../../docs/threats.md', SOURCES), 'utf8');

/** Last cell of each line: a spec, and the name of a test in it. */
const named = TEXT.split('\n')
  .map(line => /^\|.*\| `([\w./-]+\.(?:spec\.ts|py))`(?:: (.+?))?\s+\|$/.exec(line))
  .filter(match => match !== null)
  .map(match => ({ file: match[1] ?? '', test: match[2] }));

describe('docs/threats.md', () => {
  it('names a spec for each threat, and for everybody who could be hostile', () => {
    const rows = TEXT.split('\n').filter(line => line.startsWith('| ') && !/^\| (threat|who|---)/.test(line));
    expect(rows.length).toBeGreaterThan(25);
    expect(named).toHaveLength(rows.length);
    for (const who of [
      'page of JupyterLab',
      'another origin',
      'user of this machine',
      'network',
      'remote machine',
      'notebook file'
    ])
      expect(TEXT).toMatch(new RegExp(`^\\| (A|Another|Somebody)[^|]*${who}`, 'm'));
  });

  it.each(named)('$file has the test "$test"', ({ file, test }) => {
    const spec = new URL(file, SOURCES);
    expect(existsSync(spec)).toBe(true);
    if (test !== undefined) expect(readFileSync(spec, 'utf8')).toContain(test);
  });
});
