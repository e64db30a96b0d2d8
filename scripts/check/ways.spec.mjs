// @ts-check
/** The paths of docs/architecture.md, "Two ways", followed over the imports of the files that it names. */
import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { importsOf } from './layers.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const SOURCES = 'kernel-bridge/src';

/** @typedef {{ file: string, joint: string | null, afterBorder: boolean }} Stop */

/** @param {string} title @returns {Stop[]} */
function wayOf(title) {
  const text = readFileSync(`${ROOT}docs/architecture.md`, 'utf8').split('\n## Two ways\n')[1] ?? '';
  const part = (text.split('\n## ')[0] ?? '').split(`\n${title}:\n`)[1]?.split(/\nOne \w+:\n/)[0] ?? '';
  let afterBorder = false;
  /** @type {Stop[]} */
  const stops = [];
  for (const line of part.split('\n')) {
    if (line === '---') afterBorder = true;
    const found = /^(\d+)\. `([\w/-]+)`: .*?(?:\(joined in `([\w/-]+)`\))?$/.exec(line);
    if (!found) continue;
    expect(Number(found[1])).toBe(stops.length + 1);
    stops.push({ file: found[2] ?? '', joint: found[3] ?? null, afterBorder });
    afterBorder = false;
  }
  return stops;
}

/** The files that a file imports. @param {string} file @returns {string[]} */
function known(file) {
  const path = `${SOURCES}/${file}.ts`;
  return importsOf({ path, source: readFileSync(`${ROOT}${path}`, 'utf8') })
    .filter(({ module }) => module.startsWith('.'))
    .map(({ module }) => posix.join(posix.dirname(file), module).replace(/\.js$/, ''));
}

describe.each([
  ['One output', 14],
  ['One request', 13]
])('the way of %s', (title, most) => {
  const stops = wayOf(title);

  it('has as many stops as it needs, each of them once, and crosses the border between the processes once', () => {
    const files = stops.map(({ file }) => file);
    expect(files.filter(file => !existsSync(`${ROOT}${SOURCES}/${file}.ts`))).toEqual([]);
    expect(new Set(files).size).toBe(files.length);
    expect(files.length).toBeGreaterThan(10);
    expect(files.length).toBeLessThanOrEqual(most);
    expect(stops.filter(({ afterBorder }) => afterBorder)).toHaveLength(1);
  });

  it('leads from each file to one that it knows, or that knows it', () => {
    for (const [index, { file, joint, afterBorder }] of stops.entries()) {
      const before = stops[index - 1]?.file;
      if (before === undefined) continue;
      const step = `${before} → ${file}`;
      if (afterBorder) {
        // Two processes: both know only their messages to each other.
        const shared = known(before).filter(each => known(file).includes(each));
        expect(
          shared.some(each => each.startsWith('keeper-protocol/')),
          step
        ).toBe(true);
        expect([...known(before), ...known(file)], step).not.toContain(file);
      } else if (joint === null) {
        expect(known(before).includes(file) || known(file).includes(before), step).toBe(true);
      } else {
        const meets = (/** @type {string} */ each) =>
          joint === each ||
          known(joint).includes(each) ||
          known(each).includes(joint) ||
          [joint, each].every(one => known(one).includes('keeper-protocol/contract'));
        // The confirmation of the write returns the same way, so the joint need not know the writer.
        const isMet = stops.slice(0, index).some(stop => meets(stop.file));
        expect(isMet && meets(file), `${step} in ${joint}`).toBe(true);
      }
    }
  });
});
