// @ts-check
/** `payload.json`: the content of a bundle of the bridge, so that two bundles can be distinguished and a copy can be checked. */
import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';

const RECORD = 'payload.json';
/** The inputs of created environments; another value requires new environments. */
const ENVIRONMENT_PARTS = /^(environments|wheels)\//;

/** @param {string} folder */
export async function writePayloadRecord(folder) {
  const { version } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8'));
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter(entry => entry.isFile())
    .map(entry => path.relative(folder, path.join(entry.parentPath, entry.name)))
    .filter(name => name !== RECORD)
    .sort();
  /** @type {Record<string, string>} */
  const files = {};
  for (const name of names) {
    files[name] = createHash('sha256')
      .update(await readFile(path.join(folder, name)))
      .digest('hex');
  }
  const record = {
    format: 1,
    version,
    hash: digest(Object.entries(files)),
    environmentsHash: digest(Object.entries(files).filter(([name]) => ENVIRONMENT_PARTS.test(name))),
    files
  };
  await writeFile(path.join(folder, RECORD), `${JSON.stringify(record, null, 2)}\n`);
}

/** @param {[string, string][]} files */
function digest(files) {
  return createHash('sha256').update(JSON.stringify(files)).digest('hex');
}
