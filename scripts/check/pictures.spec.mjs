// @ts-check
import { expect, it } from 'vitest';
import { picturesThatFail } from './pictures.mjs';

const now = {
  text: '![x](images/a.png) ![y](images/b.png)',
  codeOf: (/** @type {string} */ name) => (name === 'a.png' ? 'new' : null)
};

it('a picture that is older than its notebook, that no page shows, or that was not recorded, is named', () => {
  expect(picturesThatFail(['a.png', 'b.png'], { 'a.png': 'new', 'b.png': null }, now)).toEqual([]);
  expect(picturesThatFail(['a.png'], { 'a.png': 'old' }, now)).toEqual([
    expect.stringContaining('older than its notebook')
  ]);
  expect(picturesThatFail(['c.png'], { 'c.png': null }, now)).toEqual([
    expect.stringContaining('no page shows it')
  ]);
  expect(picturesThatFail(['b.png'], {}, now)).toEqual([expect.stringContaining('npm run pictures')]);
});
