import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JournalReader } from './journal-reader.js';
import { trimSegments } from './journal-trim.js';
import { JournalWriter } from './journal-writer.js';
import { gapOf } from './record.js';
import { listSegments } from './segment-file.js';
import { inTemporaryFolder, WriterLog } from './testing/journal-folder.js';

const SEGMENT_BYTES = 700;
const MAX_BYTES = 5_000;

const act = fc.oneof(
  { weight: 5, arbitrary: fc.record({ write: fc.array(fc.nat(400), { minLength: 1, maxLength: 12 }) }) },
  { weight: 2, arbitrary: fc.record({ trim: fc.integer({ min: 1, max: 4 }) }) },
  /** The writer is lost without a close, and the last segment is cut at some byte. */
  { weight: 2, arbitrary: fc.record({ crash: fc.nat() }) },
  { weight: 1, arbitrary: fc.constant('reopen' as const) },
  { weight: 4, arbitrary: fc.record({ read: fc.nat() }) }
);

/** Written payloads by seq; index 0 is record 1. */
type Model = string[];

class Life {
  readonly model: Model = [];
  /** The reader of a gateway that lives through all steps. */
  readonly reader: JournalReader;
  readonly #log = new WriterLog();
  #writer!: JournalWriter;
  #written = 0;

  constructor(readonly dir: string) {
    this.reader = new JournalReader(dir);
  }

  async open(): Promise<void> {
    const options = this.#log.options({ segmentBytes: SEGMENT_BYTES, maxBytes: MAX_BYTES });
    this.#writer = await JournalWriter.open(this.dir, options);
    // Records are lost only at the end, where a crash cut them off.
    expect(this.#writer.lastSeq).toBeLessThanOrEqual(this.model.length);
    this.model.length = this.#writer.lastSeq;
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  async write(sizes: readonly number[]): Promise<void> {
    for (const size of sizes) {
      const text = `${this.#written++}`.padEnd(size, '.');
      this.#writer.append(3, [Buffer.from(text)]);
      this.model.push(text);
      await turn();
    }
  }

  async trim(count: number): Promise<void> {
    await trimSegments(this.dir, count, 'journal_pruned');
  }

  async reopen(): Promise<void> {
    await this.close();
    const before = this.model.length;
    await this.open();
    expect(this.model).toHaveLength(before);
  }

  async crash(place: number): Promise<void> {
    await this.close();
    const last = (await listSegments(this.dir)).at(-1);
    if (last !== undefined) {
      const file = join(this.dir, last.file);
      await truncate(file, place % ((await stat(file)).size + 1));
    }
    await this.open();
  }

  /**
   * From any position: all stored records, in order, once; and one gap for each range of lost records, and for nothing
   * else.
   */
  async check(reader: JournalReader, from: number): Promise<void> {
    let missing = 0;
    let next = from;
    for await (const batch of reader.readAcross(from, { newest: () => this.#writer.lastSeq })) {
      for (const record of batch) {
        expect(record.seq).toBe(next);
        const gap = gapOf(record);
        if (gap === null) {
          expect(record.payload.toString()).toBe(this.model[next - 1]);
          next++;
        } else {
          expect(gap.count).toBe(gap.toSeq! - next + 1);
          missing = gap.toSeq!;
          next = missing + 1;
        }
      }
    }
    expect(missing).toBeLessThan(await reader.firstSeq());
    expect(next).toBe(Math.max(from, this.#writer.lastSeq + 1));
  }
}

describe('a journal', { timeout: 240_000 }, () => {
  it('shows a reader only an ordered prefix and explicit gaps, whatever happens to the journal', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 25 }), acts =>
        inTemporaryFolder(async dir => {
          const life = new Life(dir);
          await life.open();
          for (const next of acts) {
            if (next === 'reopen') await life.reopen();
            else if ('write' in next) await life.write(next.write);
            else if ('trim' in next) await life.trim(next.trim);
            else if ('crash' in next) await life.crash(next.crash);
            else await life.check(life.reader, 1 + (next.read % (life.model.length + 2)));
          }
          await life.check(life.reader, 1);
          await life.close();
          await life.check(new JournalReader(dir), 1);
          expect((await readdir(dir)).filter(name => name.endsWith('.tmp'))).toEqual([]);
        })
      ),
      { numRuns: 60 }
    );
  });
});
