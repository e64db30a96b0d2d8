// @ts-check
/** The licences of the packages that are in a bundle: they require that their text is distributed with it. */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { SetupProblem } from '../setup/setup-problem.mjs';

/** Licences that we may pass on, with their text. A person decides about any other. */
const ACCEPTED = /^\(?(MIT|ISC|Apache-2\.0|BSD-[23]-Clause|0BSD|BlueOak-1\.0\.0|Unlicense|CC0-1\.0)\b/;

/**
 * @param {readonly string[]} inputs files of the bundle, relative to `root`
 * @param {string} root
 */
export async function licenceTexts(inputs, root) {
  const packages = [...new Set(inputs.flatMap(packageOf))].sort();
  const parts = [];
  for (const name of packages) {
    const folder = path.join(root, name);
    const {
      name: called,
      version,
      license
    } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
    if (typeof license !== 'string' || !ACCEPTED.test(license)) {
      throw new SetupProblem(
        'failed',
        `${called} ${version} has the licence ${JSON.stringify(license)}, which nobody has reviewed; see scripts/package/licences.mjs.`
      );
    }
    parts.push(`${called} ${version} (${license})\n\n${await textIn(folder)}`);
  }
  return parts.join(`\n${'-'.repeat(80)}\n\n`);
}

/** @param {string} input @returns {string[]} */
function packageOf(input) {
  const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
  return found === undefined ? [] : [found];
}

/** @param {string} folder */
async function textIn(folder) {
  if (!existsSync(folder)) return '';
  const file = (await readdir(folder)).find(name => /^(licen[cs]e|copying)/i.test(name));
  return file === undefined
    ? '(its package has no text of the licence)\n'
    : await readFile(path.join(folder, file), 'utf8');
}
