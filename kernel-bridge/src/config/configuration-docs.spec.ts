import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { NOT_HERE } from './config-file.js';
import { SETTING_KEYS, SETTINGS } from './settings.js';

const TEXT = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');

function cells(line: string): string[] {
  return line
    .split('|')
    .slice(1, -1)
    .map(cell => cell.trim());
}

const rows = TEXT.split('\n')
  .filter(line => /^\| `[A-Z]/.test(line))
  .map(cells);

describe('docs/configuration.md', () => {
  it('lists every setting with its flag, its variable, what it may be and its default', () => {
    const documented = rows.filter(row => row.length === 6).map(row => row.slice(0, 5));
    const expected = SETTING_KEYS.map(key => {
      const { name, flag, variable, kind, fallback, fallbackWords } = SETTINGS[key];
      const standard = fallbackWords ?? `\`${JSON.stringify(kind.toFile(fallback))}\``;
      return [
        `\`${name}\``,
        flag === undefined ? '' : `\`${flag.split(' ')[0]}\``,
        `\`${variable}\``,
        kind.expected,
        standard
      ];
    });
    expect(documented).toEqual(expected);
  });

  it('says the help of each', () => {
    expect(rows.filter(row => row.length === 6).map(row => row[5])).toEqual(
      SETTING_KEYS.map(key => SETTINGS[key].help)
    );
  });

  it('lists the other names that Jupyter has for them', () => {
    for (const key of SETTING_KEYS)
      for (const alias of SETTINGS[key].aliases) expect(TEXT).toContain(`\`${alias}\``);
  });

  it('lists what Jupyter has and the bridge does not, and why', () => {
    const documented = rows.filter(row => row.length === 2);
    expect(documented).toEqual(Object.entries(NOT_HERE).map(([name, { why }]) => [`\`${name}\``, why]));
  });
});
