/** One contract for every reader of a journal, whatever damage its files have. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { JournalReader, type JournalRecord, JournalWriter } from '../journal/index.js';
import { SEGMENT_HEADER_BYTES } from '../journal/segment-file.js';
import { inTemporaryFolder, WriterLog } from '../journal/testing/journal-folder.js';
import { SHUT_DOWN } from '../kernels/journal-folders.js';
import { readJournalTail } from '../keeper/journal-tail.js';
import { KernelOutputs } from '../outputs/kernel-outputs.js';
import { KernelStory, segmentsOf } from '../outputs/testing/kernel-story.js';
import { MirroredJournal } from '../remotes/mirror/mirrored-journal.js';
import { framesOf } from '../remotes/mirror/stream-frames.js';
import { readJournalPage } from '../outputs/journal-page.js';
import { journalStream } from '../outputs/journal-stream.js';

const LINES = 40;

const CHECKOUT = fileURLToPath(new URL('../../../', import.meta.url));

/** `npm run fuzz` gives each property this much time, and a seed that reproduces its finding. */
const FUZZ_MS = Number(process.env['TPULAB_FUZZ_MS'] ?? 0);
const SEED = process.env['TPULAB_FUZZ_SEED'];
const RUNS = {
  ...(FUZZ_MS > 0 ? { numRuns: 1e9, interruptAfterTimeLimit: FUZZ_MS } : { numRuns: 25 }),
  ...(SEED === undefined ? {} : { seed: Number(SEED) })
};

/** A reader in Python, written only from docs/journal.md. It reads one journal after the other. */
class PythonReader implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #lines: Interface;

  constructor() {
    const python = path.join(CHECKOUT, '.tpulab', 'envs', 'jax', 'bin', 'python');
    this.#child = spawn(python, [path.join(CHECKOUT, 'tests', 'clients', 'journal_reader.py')], {
      stdio: ['pipe', 'pipe', 'inherit']
    });
    this.#lines = createInterface(this.#child.stdout!);
  }

  async read(journalDir: string): Promise<Reading> {
    const line = once(this.#lines, 'line', { signal: AbortSignal.timeout(60_000) });
    this.#child.stdin?.write(`${journalDir}\n`);
    const [answer] = (await line) as [string];
    return JSON.parse(answer) as Reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
  }
}

let python: PythonReader;
beforeAll(() => {
  python = new PythonReader();
});
afterAll(() => python[Symbol.asyncDispose]());

interface Gap {
  readonly fromSeq: number;
  readonly toSeq: number;
}

/** The result of a reader for a journal. */
interface Reading {
  readonly seqs: number[];
  readonly gaps: Gap[];
}

interface Damaged {
  readonly dir: string;
  /** Records that were written. */
  readonly lastSeq: number;
  /** Records that damage does not block: up to the first bad byte of each segment. */
  readonly readable: readonly number[];
}

/** Limit that stops an endless loop. */
const MAX_STEPS = 500;

async function gather(batches: AsyncIterable<readonly JournalRecord[]>): Promise<Reading> {
  const reading: Reading = { seqs: [], gaps: [] };
  let steps = 0;
  for await (const batch of batches) {
    expect(++steps).toBeLessThan(MAX_STEPS);
    for (const record of batch) {
      if (record.missing) reading.gaps.push(record.missing);
      else reading.seqs.push(record.seq);
    }
  }
  return reading;
}

async function fromStream(frames: AsyncIterable<Buffer>, stop: (lastSeq: number) => void): Promise<Reading> {
  const reading: Reading = { seqs: [], gaps: [] };
  let steps = 0;
  let standings = 0;
  for await (const frame of framesOf(frames)) {
    expect(++steps).toBeLessThan(MAX_STEPS);
    if (frame.kind === 'records') {
      await inTemporaryFolder(async dir => {
        await using journal = await MirroredJournal.open(dir);
        await journal.append(frame.bytes);
        const { seqs } = await gather(
          new JournalReader(journal.journalDir).readAcross(await firstOf(journal))
        );
        reading.seqs.push(...seqs);
      });
    } else if (frame.kind === 'skipped') expect.fail('no record of this spec is too large');
    else if (frame.note.kind === 'gap') reading.gaps.push(frame.note);
    else if (frame.note.kind === 'standing' && ++standings > 1) stop(frame.note.lastSeq);
  }
  return reading;
}

async function firstOf(journal: MirroredJournal): Promise<number> {
  return new JournalReader(journal.journalDir).firstSeq();
}

const gatherEnded = (dir: string): Promise<Reading> =>
  gather(new JournalReader(dir).readAcross(1, { ended: true }));

/** Readers of a journal that is no longer written: how much is missing at its end is unknown. */
const OF_AN_ENDED_KERNEL: Readonly<Record<string, (journal: Damaged) => Promise<Reading>>> = {
  'a reader written from the page': ({ dir }) => python.read(dir),
  'what reads it whole': ({ dir }) => gatherEnded(dir),
  'the stream to another gateway': ({ dir }) =>
    fromStream(
      journalStream({
        journalDir: dir,
        kernel: null,
        from: 1,
        checksum: undefined,
        signal: new AbortController().signal
      }),
      () => undefined
    ),
  'pages of it': async ({ dir }) => {
    const lastSeq = await new JournalReader(dir).lastSeq().catch(() => 0);
    return fromPages(dir, lastSeq, true);
  }
};

/** Readers of a journal whose newest number is known: everything up to it is read or missing. */
const OF_A_RUNNING_KERNEL: Readonly<Record<string, (journal: Damaged) => Promise<Reading>>> = {
  'a client that catches up': ({ dir, lastSeq }) =>
    gather(new JournalReader(dir).readAcross(1, { newest: () => lastSeq })),
  'the stream to another gateway': ({ dir, lastSeq }) => {
    const stop = new AbortController();
    const kernel = { lastSeq, isRemoved: false, listen: () => ({ [Symbol.dispose]: () => undefined }) };
    const { signal } = stop;
    const frames = journalStream({
      journalDir: dir,
      kernel,
      from: 1,
      checksum: undefined,
      signal,
      positionIntervalMs: 1,
      coalesceMs: 1
    });
    return fromStream(frames, reached => {
      if (reached >= lastSeq) stop.abort();
    });
  },
  'pages of it': ({ dir, lastSeq }) => fromPages(dir, lastSeq, false)
};

async function fromPages(dir: string, lastSeq: number, isOver: boolean): Promise<Reading> {
  const reading: Reading = { seqs: [], gaps: [] };
  let from = 1;
  for (let requested = 0; requested < MAX_STEPS; requested++) {
    const page = await readJournalPage(dir, { from, limit: 7, lastSeq, isOver });
    for (const { seq, content } of page.entries) {
      const { type, fromSeq, toSeq } = content as { type?: string } & Partial<Gap>;
      if (type === 'gap' && fromSeq !== undefined && toSeq !== undefined)
        reading.gaps.push({ fromSeq, toSeq });
      else reading.seqs.push(seq);
    }
    if (page.next === from) return reading;
    from = page.next;
  }
  throw new Error('the pages do not end');
}

type Harm =
  | 'none'
  | 'torn'
  | 'flipped'
  | 'several flipped'
  | 'hole'
  | 'garbage to the end'
  | 'zeros to the end'
  | 'segment lost'
  | 'header';
const harms = fc.record({
  harm: fc.constantFrom<Harm[]>(
    'none',
    'torn',
    'flipped',
    'several flipped',
    'hole',
    'garbage to the end',
    'zeros to the end',
    'segment lost',
    'header'
  ),
  segment: fc.nat(),
  place: fc.nat(),
  segmentBytes: fc.constantFrom(2048, 1024 * 1024)
});

/** Runs a cell that prints `LINES` lines, then damages the journal. Which records are readable follows from the bytes alone. */
async function inDamaged(
  { harm, segment, place, segmentBytes }: typeof harms extends fc.Arbitrary<infer T> ? T : never,
  work: (journal: Damaged) => Promise<void>
): Promise<void> {
  await inTemporaryFolder(async kernelDir => {
    const dir = path.join(kernelDir, 'journal');
    // Without this file the stream waits for the process that ends the kernel to write it.
    await writeFile(
      path.join(kernelDir, 'ended.json'),
      JSON.stringify({ kernelId: 'k', specName: null, endedAt: '2026-01-01T00:00:00Z', reason: SHUT_DOWN })
    );
    const story = new KernelStory();
    const id = story.request('x', { cellId: 'a' });
    story.begin(id, 'x', 1);
    for (let line = 0; line < LINES; line++) story.iopub(id, 'stream', { name: 'stdout', text: `<${line}>` });
    story.end(id);
    await story.writeTo(dir, { segmentBytes });
    const files = await segmentsOf(dir);
    // No reader can detect that a journal once began earlier, or continued in a segment that left no trace.
    const target = harm === 'segment lost' ? 1 + (segment % (files.length - 2)) : segment % files.length;
    const readable: number[] = [];
    for (const [index, file] of files.entries()) {
      const whole = await readFile(file);
      const bytes = index === target ? harmed(whole, harm, place) : whole;
      let at = SEGMENT_HEADER_BYTES;
      let isGood = bytes !== null && bytes.subarray(0, at).equals(whole.subarray(0, at));
      for (let seq = Number(whole.readBigUInt64LE(16)); at < whole.length; seq++) {
        const end = at + 8 + whole.readUInt32LE(at);
        isGood &&= bytes?.subarray(at, end).equals(whole.subarray(at, end)) === true;
        if (isGood) readable.push(seq);
        at = end;
      }
      if (bytes === null) await rm(file);
      else await writeFile(file, bytes);
    }
    await work({ dir, lastSeq: story.messages.length, readable });
  });
}

function harmed(whole: Buffer, harm: Harm, place: number): Buffer | null {
  const at = SEGMENT_HEADER_BYTES + (place % (whole.length - SEGMENT_HEADER_BYTES));
  const bytes = Buffer.from(whole);
  switch (harm) {
    case 'none':
      return bytes;
    case 'torn':
      return bytes.subarray(0, at);
    case 'flipped':
      bytes[at]! ^= 1 << (place % 8);
      return bytes;
    case 'several flipped':
      for (let turn = 0; turn < 5; turn++)
        bytes[SEGMENT_HEADER_BYTES + ((place * (turn + 1)) % (whole.length - SEGMENT_HEADER_BYTES))]! ^=
          1 << turn;
      return bytes;
    case 'hole':
      // A page that never reached the disk.
      return bytes.fill(0, at, Math.min(at + 512, bytes.length));
    case 'garbage to the end':
      for (let index = at; index < bytes.length; index++) bytes[index] = (index * 31 + place) & 0xff;
      return bytes;
    case 'zeros to the end':
      return bytes.fill(0, at);
    case 'segment lost':
      return null;
    case 'header':
      bytes[place % 16]! ^= 1;
      return bytes;
  }
}

const several = harms.filter(({ harm, segmentBytes }) => harm !== 'segment lost' || segmentBytes === 2048);

function numbersIn(gaps: readonly Gap[]): number[] {
  return gaps.flatMap(({ fromSeq, toSeq }) =>
    Array.from({ length: toSeq - fromSeq + 1 }, (_, index) => fromSeq + index)
  );
}

describe('every reader of a journal', { timeout: 300_000 + 2 * FUZZ_MS }, () => {
  for (const [name, read] of Object.entries(OF_A_RUNNING_KERNEL)) {
    it(`${name}: reads all readable records, and reports the rest once`, async () => {
      await fc.assert(
        fc.asyncProperty(several, story =>
          inDamaged(story, async journal => {
            const { seqs, gaps } = await read(journal);
            expect(seqs).toEqual(journal.readable);
            const all = [...seqs, ...numbersIn(gaps)].sort((a, b) => a - b);
            expect(all).toEqual(Array.from({ length: journal.lastSeq }, (_, index) => index + 1));
          })
        ),
        RUNS
      );
    });
  }

  for (const [name, read] of Object.entries(OF_AN_ENDED_KERNEL)) {
    it(`${name}, after the kernel's end: reads all readable records, ends, and reports no gap twice`, async () => {
      await fc.assert(
        fc.asyncProperty(several, story =>
          inDamaged(story, async journal => {
            const { seqs, gaps } = await read(journal);
            expect(seqs).toEqual(journal.readable);
            const missing = numbersIn(gaps);
            expect(new Set(missing).size).toBe(missing.length);
            // Up to the last readable record, no loss is skipped silently.
            const last = journal.readable.at(-1) ?? 0;
            const all = [...seqs, ...missing].filter(seq => seq <= last).sort((a, b) => a - b);
            expect(all).toEqual(Array.from({ length: last }, (_, index) => index + 1));
          })
        ),
        RUNS
      );
    });
  }

  it('outputs: reports that the end of an ended kernel is damaged, to the cell that was waiting for it', async () => {
    await fc.assert(
      fc.asyncProperty(several, story =>
        inDamaged(story, async ({ dir, lastSeq, readable }) => {
          const { gaps } = await gatherEnded(dir);
          const last = readable.at(-1) ?? 0;
          const lostEnd = gaps.filter(({ fromSeq }) => fromSeq > last);
          await using outputs = new KernelOutputs({ journalDir: dir, indexFile: null });
          const { executions } = await outputs.read({}, null, { isOver: true });
          const isWaiting =
            readable.includes(1) && !readable.includes(lastSeq - 1) && !readable.includes(lastSeq);
          const reported = executions.flatMap(each => each.gaps).filter(({ seq }) => seq > last);
          expect(reported.length).toBe(isWaiting ? lostEnd.length : 0);
          // A second read reports it again, and the index is unchanged.
          const again = await outputs.read({}, null, { isOver: true });
          expect(again.executions).toEqual(executions);
        })
      ),
      RUNS
    );
  });

  it('outputs: have every readable line', async () => {
    await fc.assert(
      fc.asyncProperty(several, story =>
        inDamaged(story, async ({ dir, lastSeq, readable }) => {
          await using outputs = new KernelOutputs({ journalDir: dir, indexFile: null });
          const { executions } = await outputs.read({}, lastSeq);
          const printed = JSON.stringify(executions.map(each => each.outputs));
          // The request (record 1) states whose lines these are; they follow the request, `busy` and `execute_input`.
          const lines = readable.filter(seq => seq > 3 && seq <= 3 + LINES).map(seq => seq - 4);
          const expected = readable.includes(1) ? lines : [];
          expect(expected.filter(line => !printed.includes(`<${line}>`))).toEqual([]);
        })
      ),
      RUNS
    );
  });

  it('a keeper that takes over: restores the state of the last record, and reads to the end', async () => {
    await fc.assert(
      fc.asyncProperty(several, story =>
        inDamaged(story, async ({ dir, lastSeq, readable }) => {
          const before = { ready: false, session: null, busy: [] };
          const tail = await readJournalTail(new JournalReader(dir), 1, before);
          expect(tail.answers.size).toBe(readable.includes(lastSeq - 1) ? 1 : 0);
        })
      ),
      RUNS
    );
  });

  it('repair: leaves a journal with only readable records, and continues', async () => {
    await fc.assert(
      fc.asyncProperty(several, story =>
        inDamaged(story, async ({ dir, readable }) => {
          const writer = await JournalWriter.open(dir, new WriterLog().options());
          writer.append(3, [Buffer.from('after')]);
          await writer.close();
          const { seqs } = await gather(
            new JournalReader(dir).readAcross(1, { newest: () => writer.lastSeq })
          );
          expect(seqs).toEqual(expect.arrayContaining([...readable]));
          expect(seqs.at(-1)).toBe(writer.lastSeq);
        })
      ),
      RUNS
    );
  });

  it('a mirror: accepts the stream, and reads like the journal', async () => {
    await fc.assert(
      fc.asyncProperty(several, story =>
        inDamaged(story, async ({ dir, readable }) => {
          await inTemporaryFolder(async here => {
            await using mirror = await MirroredJournal.open(here);
            const { signal } = new AbortController();
            const stream = journalStream({
              journalDir: dir,
              kernel: null,
              from: 1,
              checksum: undefined,
              signal
            });
            for await (const frame of framesOf(Readable.from(stream) as AsyncIterable<Buffer>)) {
              if (frame.kind === 'records') await mirror.append(frame.bytes);
            }
            const { seqs } = await gather(
              new JournalReader(mirror.journalDir).readAcross(1, { ended: true })
            );
            expect(seqs).toEqual(readable);
          });
        })
      ),
      RUNS
    );
  });
});
