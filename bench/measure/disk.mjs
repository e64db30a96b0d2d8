// @ts-check
/** The throughput of the disk: writes the same bytes to a plain file as the journal's writer, and does nothing else. */
import { closeSync, fdatasync, openSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Like the journal: synced in the background, about ten times a second. */
const SYNC_MS = 80;

/**
 * @param {string} folder on the disk in question
 * @param {number} count
 * @param {number} bytes
 * @returns {Promise<{ mbPerSecond: number, durableMbPerSecond: number }>} until written, and until it would survive a power cut
 */
export async function writePlainly(folder, count, bytes) {
  const file = join(folder, 'plain');
  const handle = openSync(file, 'w');
  const buffer = Buffer.alloc(bytes, 'b');
  const sync = promisify(fdatasync);
  /** @type {Promise<void>} */
  let syncing = Promise.resolve();
  try {
    const start = performance.now();
    let syncedAt = start;
    for (let n = 0; n < count; n++) {
      for (let at = 0; at < bytes;) at += writeSync(handle, buffer, at, bytes - at);
      if (performance.now() - syncedAt > SYNC_MS) {
        syncedAt = performance.now();
        syncing = syncing.then(() => sync(handle));
        await new Promise(resolve => setImmediate(resolve));
      }
    }
    const writtenMs = performance.now() - start;
    await syncing;
    await sync(handle);
    const durableMs = performance.now() - start;
    const rate = (/** @type {number} */ ms) => Math.round((count * bytes) / 1e3 / ms);
    return { mbPerSecond: rate(writtenMs), durableMbPerSecond: rate(durableMs) };
  } finally {
    closeSync(handle);
    unlinkSync(file);
  }
}
