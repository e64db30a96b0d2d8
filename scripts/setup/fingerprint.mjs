// @ts-check
/** One hash over files and texts: while it is unchanged, the results built from them are up to date. */
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { errnoOf } from './setup-problem.mjs';

/** Folders without sources. */
const SKIPPED = new Set(['node_modules', 'lib', 'labextension', '__pycache__', '.ipynb_checkpoints']);

/**
 * @param {object} of
 * @param {readonly string[]} [of.files] files and folders, with everything below; a missing one counts as missing
 * @param {readonly string[]} [of.texts]
 * @returns {Promise<string>}
 */
export async function fingerprint({ files = [], texts = [] }) {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(`text ${text.length} ${text}`);
  for (const file of files) await addPath(hash, file, path.basename(file));
  return hash.digest('hex');
}

/**
 * @param {import('node:crypto').Hash} hash
 * @param {string} file
 * @param {string} name
 * @returns {Promise<void>}
 */
async function addPath(hash, file, name) {
  let entry;
  try {
    entry = await stat(file);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    hash.update(`absent ${name}\n`);
    return;
  }
  if (entry.isDirectory()) {
    hash.update(`folder ${name}\n`);
    const children = (await readdir(file)).filter(
      child => !SKIPPED.has(child) && !child.endsWith('.tsbuildinfo')
    );
    for (const child of children.sort()) await addPath(hash, path.join(file, child), `${name}/${child}`);
  } else if (entry.isFile()) {
    const content = await readFile(file);
    hash.update(`file ${name} ${content.length}\n`).update(content);
  }
}
