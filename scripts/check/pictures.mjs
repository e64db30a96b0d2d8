// @ts-check
/**
 * The pictures of the documentation: each is used by a page, and was taken from the current notebook or view. `npm run
 * pictures` takes them again and records the hash of their code in `docs/images/pictures.json`.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { codeHash } from './tracked-files.mjs';

/** @typedef {Readonly<Record<string, string | null>>} Recorded by the picture's name: the hash of its notebook's or view's code; null: neither is known */

/** The notebook that a picture shows. @type {readonly [RegExp, string][]} */
const NOTEBOOKS = [[/^(panels|dashboard|session)-/, '05-ddpm.ipynb']];
/**
 * The views of pictures that show one thing; pictures of a whole page are taken with the others. Each entry is a folder or a file.
 *
 * @type {readonly [RegExp, readonly string[]][]}
 */
const VIEWS = [
  [/^connect-/, ['extension/src/remotes/dialog', 'style/dialog.css']],
  [/^devices-/, ['extension/src/devices', 'style/devices.css']],
  [/^banner-/, ['extension/src/remotes/notice-view.tsx']],
  [/^launcher-/, ['extension/src/launcher/plugin.ts', 'style/icons']]
];
const RECORD = 'docs/images/pictures.json';

/** @param {string} root @param {string} name */
function shownCode(root, name) {
  const notebook = NOTEBOOKS.find(([pictures]) => pictures.test(name))?.[1];
  if (notebook !== undefined)
    return codeHash(JSON.parse(readFileSync(path.join(root, 'notebooks', notebook), 'utf8')).cells);
  const views = VIEWS.find(([pictures]) => pictures.test(name))?.[1];
  return views === undefined ? null : viewHash(root, views);
}

/** Hash of code without comments and specs: invisible changes make no picture old. @param {string} root @param {readonly string[]} views */
export function viewHash(root, views) {
  const files = views.flatMap(view => {
    const at = path.join(root, view);
    if (!statSync(at).isDirectory()) return [at];
    return readdirSync(at)
      .sort()
      .map(name => path.join(at, name));
  });
  const shown = files.filter(file => !/\.spec\.\w+$/.test(file));
  const texts = shown.map(file => readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, ''));
  return createHash('sha256').update(texts.join('\0').replace(/\s+/g, ' ')).digest('hex');
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
export function outdatedPictures(names, recorded, { text, codeOf }) {
  return names.flatMap(name => {
    if (!text.includes(`images/${name}`)) return [`docs/images/${name}: no page shows it; use or delete it`];
    const taken = recorded[name];
    if (taken === undefined) return [`docs/images/${name}: not in ${RECORD}; run npm run pictures`];
    return taken === codeOf(name)
      ? []
      : [`docs/images/${name}: older than its notebook or view; run npm run pictures`];
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
  return outdatedPictures(picturesIn(root), recorded, { text, codeOf: name => shownCode(root, name) });
}

/** Called after the pictures were taken. @param {string} root */
export function recordPictures(root) {
  const entries = picturesIn(root).map(name => [name, shownCode(root, name)]);
  writeFileSync(path.join(root, RECORD), `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`);
}
