import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const SOURCES = new URL('../', import.meta.url);
const TEXT = readFileSync(new URL('../../docs/security.md', SOURCES), 'utf8');

/** Last cell of each threat: a spec, and the name of a test in it. */
const named = TEXT.split('\n')
  .map(line => /^\|.*\| `([\w./-]+\.spec\.ts)`(?:: (.+?))? \|$/.exec(line))
  .filter(match => match !== null)
  .map(match => ({ file: match[1] ?? '', test: match[2] }));

describe('docs/security.md', () => {
  it('names a spec for each threat', () => {
    const threats = TEXT.split('## Threats')[1]?.split('\n## ')[0] ?? '';
    const rows = threats.split('\n').filter(line => line.startsWith('| ') && !/^\| (threat|---)/.test(line));
    expect(rows.length).toBeGreaterThan(15);
    expect(named).toHaveLength(rows.length);
  });

  it.each(named)('$file has the test "$test"', ({ file, test }) => {
    const spec = new URL(file, SOURCES);
    expect(existsSync(spec)).toBe(true);
    if (test !== undefined) expect(readFileSync(spec, 'utf8')).toContain(test);
  });
});
