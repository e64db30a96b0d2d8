// @ts-check
/** Remembers the inputs of each finished setup stage, so that the next start skips it. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { checkout } from './checkout.mjs';

/** @param {string} stage */
function fileOf(stage) {
  return path.join(checkout.stamps, `${stage}.stamp`);
}

/**
 * @param {string} stage
 * @returns {Promise<string | null>} the fingerprint of its inputs
 */
export async function readStamp(stage) {
  try {
    return (await readFile(fileOf(stage), 'utf8')).trim();
  } catch {
    return null;
  }
}

/**
 * @param {string} stage
 * @param {string} fingerprint
 */
export async function writeStamp(stage, fingerprint) {
  await mkdir(checkout.stamps, { recursive: true });
  const half = `${fileOf(stage)}.${process.pid}`;
  await writeFile(half, `${fingerprint}\n`);
  await rename(half, fileOf(stage));
}

/**
 * Before a stage begins: an interrupted stage must not count as done.
 *
 * @param {string} stage
 */
export async function removeStamp(stage) {
  await rm(fileOf(stage), { force: true });
}
