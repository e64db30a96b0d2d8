// @ts-check
/**
 * The pictures of the documentation: each is used by a page, and one of a notebook was taken from the notebook as it is now. `npm run
 * pictures` takes them again and writes into `docs/images/pictures.json` from which code they are.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { codeHash } from './tracked-files.mjs';

/** @typedef {Readonly<Record<string, string | null>>} Recorded by the picture's name: the hash of its notebook's code; null: none is shown */

/** Pictures that show a shipped notebook; all others show dialogs. @type {readonly [RegExp, string][]} */
const NOTEBOOKS = [[/^(panels|dashboard|session)-/, '05-ddpm.ipynb']];
const RECORD = 'docs/images/pictures.json';

/** @param {string} root @param {string} name */
function shownCode(root, name) {
  const notebook = NOTEBOOKS.find(([pictures]) => pictures.test(name))?.[1];
  if (notebook === undefined) return null;
  return codeHash(JSON.parse(readFileSync(path.join(root, 'notebooks', notebook), 'utf8')).cells);
}

/** @param {string} root */
const picturesIn = root =>
  readdirSync(path.join(root, 'docs/images'))
    .filter(name => name.endsWith('.png'))
    .sort();

/**
 * @param {readonly string[]} names
 * @param {Recorded} recorded
 * @param {{ text: string, codeOf: (name: string) => string | null }} now `text`: of all pages
 * @returns {string[]}
 */
export function picturesThatFail(names, recorded, { text, codeOf }) {
  return names.flatMap(name => {
    if (!text.includes(`images/${name}`)) return [`docs/images/${name}: no page shows it; use or delete it`];
    const taken = recorded[name];
    if (taken === undefined) return [`docs/images/${name}: not in ${RECORD}; run npm run pictures`];
    return taken === codeOf(name)
      ? []
      : [`docs/images/${name}: older than its notebook; run npm run pictures`];
  });
}

/** @param {string} root @returns {string[]} */
export function pictureFindings(root) {
  const pages = readdirSync(path.join(root, 'docs')).filter(name => name.endsWith('.md'));
  const text = ['README.md', ...pages.map(name => `docs/${name}`)]
    .map(name => readFileSync(path.join(root, name), 'utf8'))
    .join('\n');
  /** @type {Recorded} */
  const recorded = JSON.parse(readFileSync(path.join(root, RECORD), 'utf8'));
  return picturesThatFail(picturesIn(root), recorded, { text, codeOf: name => shownCode(root, name) });
}

/** After they were taken. @param {string} root */
export function recordPictures(root) {
  const entries = picturesIn(root).map(name => [name, shownCode(root, name)]);
  writeFileSync(path.join(root, RECORD), `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`);
}
