/** Damage to the newest segment of a journal, at places that a seed decides, so that a failure can be repeated. */
import { cp, mkdtemp, open, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { repairJournal } from '../../journal/index.js';

const HEADER_BYTES = 32;

/** Cuts the segment at a byte in its last third, or just before its end. */
export async function cutTail(journalDir: string, seed: number): Promise<void> {
  const handle = await open(await newestSegment(journalDir), 'r+');
  try {
    const { size } = await handle.stat();
    const within = seed % 2 === 1 ? Math.min(600, size - HEADER_BYTES) : (size - HEADER_BYTES) / 3;
    await handle.truncate(size - 1 - Math.floor(fraction(seed) * within));
  } finally {
    await handle.close();
  }
}

/** Flips one bit in each of three bytes of the segment's second half. */
export async function flipBits(journalDir: string, seed: number): Promise<void> {
  const handle = await open(await newestSegment(journalDir), 'r+');
  try {
    const { size } = await handle.stat();
    const from = Math.floor((size + HEADER_BYTES) / 2);
    for (let turn = 0; turn < 3; turn++) {
      const at = from + Math.floor(fraction(seed * 31 + turn) * (size - from));
      const byte = Buffer.alloc(1);
      await handle.read(byte, 0, 1, at);
      byte[0] = byte[0]! ^ (1 << (turn + (seed % 5)));
      await handle.write(byte, 0, 1, at);
    }
  } finally {
    await handle.close();
  }
}

/**
 * Whether opening the journal drops records from its end, because the damage is in a record's length field or in the last
 * record. Uses a copy.
 */
export async function cutLastSegment(journalDir: string): Promise<boolean> {
  const copy = await mkdtemp(path.join(tmpdir(), 'tpulab-damaged-'));
  try {
    await cp(journalDir, copy, { recursive: true });
    return (await repairJournal(copy)).cuts.some(({ replacedSeq }) => replacedSeq === null);
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

async function newestSegment(journalDir: string): Promise<string> {
  const newest = (await readdir(journalDir))
    .filter(file => file.endsWith('.seg'))
    .sort()
    .at(-1);
  if (newest === undefined) throw new Error(`There is no segment in ${journalDir}.`);
  return path.join(journalDir, newest);
}

/** From 0 to 1, the same for the same seed, well distributed for small seeds. */
function fraction(seed: number): number {
  return ((seed * 2_654_435_761) % 2 ** 32) / 2 ** 32;
}
