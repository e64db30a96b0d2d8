import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { JournalReader } from '../../journal/index.js';
import { RECORD_OVERHEAD, writeRecord } from '../../journal/record-codec.js';
import { MirroredJournal } from './mirrored-journal.js';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-mirrored-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

function record(text: string): Buffer {
  const payload = Buffer.from(JSON.stringify(text));
  const bytes = Buffer.alloc(RECORD_OVERHEAD + payload.length);
  writeRecord(bytes, 0, 1, 1n, 4, [payload]);
  return bytes;
}

async function textOf(journalDir: string): Promise<unknown> {
  for await (const { payload } of new JournalReader(journalDir).read(1))
    return JSON.parse(payload.toString());
  return null;
}

it('retains every archived copy, however often the remote begins another journal', async () => {
  await using journal = await MirroredJournal.open(folder);
  for (const text of ['first', 'second', 'third']) {
    await journal.append(record(text));
    await journal.restart();
  }
  await journal.append(record('now'));
  const names = (await readdir(folder)).sort();
  const retained = await Promise.all(names.map(name => textOf(path.join(folder, name))));
  expect(Object.fromEntries(names.map((name, at) => [name, retained[at]]))).toEqual({
    journal: 'now',
    'journal.other': 'first',
    'journal.other-2': 'second',
    'journal.other-3': 'third'
  });
});
