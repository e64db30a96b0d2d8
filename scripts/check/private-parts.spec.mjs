// @ts-check
/** The private parts of other packages in our code are those of decision 0027, and the installed packages have them. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** @param {string} file */
const textOf = file => readFileSync(`${ROOT}${file}`, 'utf8');

const ROW = /^\| `(extension\/[^`]+)` +\| `([^`]+)` +\| (.+?) +\|/;
const rows = textOf('docs/decisions/0027-private-parts-of-jupyterlab.md')
  .split('\n')
  .flatMap(line => {
    const [, ours = '', theirs = '', names = ''] = ROW.exec(line) ?? [];
    return ours === ''
      ? []
      : [{ ours, theirs, names: [...names.matchAll(/`(\w+)`/g)].map(([, n = '']) => n) }];
  });

/** `object._name`, `super._name`, `override _name`, and `_name` in an object type or pattern; not our own `this._name`. */
const PRIVATE =
  /(?<!\bthis|\b_options|options)\.(_[a-z]\w+)|\boverride (?:async )?(_[a-z]\w+)|[{,;]\s*(?:readonly )?(_[a-z]\w+)(?=[:(?,}]| })/g;

/** Keys of data that others document: states of widgets, builds of extensions. `_to` is an unused parameter. */
const DATA = /^_(model|view)_|^_(esm|build|metadata|snapshot|to)$/;

/** @param {string} source */
function privateParts(source) {
  const own = new Set(
    [...source.matchAll(/\b(?:private|protected)(?: readonly)? (_\w+)/g)].map(([, n]) => n)
  );
  const used = [...source.matchAll(PRIVATE)].map(([, ...names]) => names.find(Boolean) ?? '');
  return [...new Set(used)].filter(name => !own.has(name) && !DATA.test(name));
}

describe('private parts of other packages', () => {
  it.each(rows)('$ours finds its parts in $theirs', ({ ours, theirs, names }) => {
    expect(names).not.toEqual([]);
    const [used, there] = [textOf(ours), textOf(`node_modules/${theirs}`)];
    for (const name of names) {
      expect(used).toMatch(new RegExp(`\\b${name}\\b`));
      expect(there).toMatch(new RegExp(`\\b${name}\\b`));
    }
  });

  it('are all in the decision', () => {
    const files = execFileSync('git', ['ls-files', 'extension/src', 'extension/session'], {
      cwd: ROOT,
      encoding: 'utf8'
    });
    const found = files
      .split('\n')
      .filter(file => /\.tsx?$/.test(file) && !/\.spec|\/testing\/|\.d\.ts$/.test(file))
      .flatMap(file => privateParts(textOf(file)).map(name => `${file} ${name}`));
    const listed = rows.flatMap(({ ours, names }) => names.map(name => `${ours} ${name}`));
    expect(found.filter(each => !listed.includes(each))).toEqual([]);
  });

  it.each([
    ['(context as Any)._handleError(error)', ['_handleError']],
    ['const { _saveState } = context as unknown as { readonly _saveState: Signal };', ['_saveState']],
    ['override async _get_comm_info() { return super._get_comm_info(); }', ['_get_comm_info']],
    ['this._count += 1; private _count = 0;', []]
  ])('are noticed in %s', (source, names) => {
    expect(privateParts(source)).toEqual(names);
  });
});
