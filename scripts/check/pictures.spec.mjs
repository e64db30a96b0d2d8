// @ts-check
import { expect, it } from 'vitest';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { outdatedPictures, viewHash } from './pictures.mjs';

const now = {
  text: '![x](images/a.png) ![y](images/b.png)',
  codeOf: (/** @type {string} */ name) => (name === 'a.png' ? 'new' : null)
};

it('a picture that is older than what it shows, that no page shows, or that was not recorded, is named', () => {
  expect(outdatedPictures(['a.png', 'b.png'], { 'a.png': 'new', 'b.png': null }, now)).toEqual([]);
  expect(outdatedPictures(['a.png'], { 'a.png': 'old' }, now)).toEqual([
    expect.stringContaining('older than its notebook or view')
  ]);
  expect(outdatedPictures(['c.png'], { 'c.png': null }, now)).toEqual([
    expect.stringContaining('no page shows it')
  ]);
  expect(outdatedPictures(['b.png'], {}, now)).toEqual([expect.stringContaining('npm run pictures')]);
});

it('a view changes with its code, and not with its comments and specs', () => {
  const root = mkdtempSync(path.join(tmpdir(), 'tpulab-views-'));
  const hashWith = (/** @type {string} */ name, /** @type {string} */ text) => {
    writeFileSync(path.join(root, name), text);
    return viewHash(root, ['.']);
  };
  try {
    const before = hashWith('view.tsx', "/** One. */\nconst label = 'Close'; // two\n");
    expect(hashWith('view.tsx', "/** Three. */\n// four\nconst label = 'Close'; // two\n")).toBe(before);
    expect(hashWith('view.spec.tsx', 'expect(1)')).toBe(before);
    expect(hashWith('view.tsx', "const label = 'Cancel'; // two\n")).not.toBe(before);
  } finally {
    rmSync(root, { recursive: true });
  }
});
