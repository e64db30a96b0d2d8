import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JournalReader } from '../journal/journal-reader.js';
import { JournalWriter, LARGE_BYTES } from '../journal/journal-writer.js';
import { type JournalRecord, RecordChannel } from '../journal/record.js';
import type { StoredRecord, WrittenBatch } from '../journal/record-batch.js';
import { segmentFileName } from '../journal/segment-file.js';
import { inTemporaryFolder } from '../journal/testing/journal-folder.js';
import { encodeV1 } from '../jupyter/v1-frame.js';
import type { LargeRecordRef } from '../keeper-protocol/messages.js';
import { LiveFeed } from './feed.js';
import { largeRecordRef, StoredPayloads } from '../keeper-protocol/stored-record.js';

/** A keeper's journal and the keeper's end of a link, in this process: frames are delivered one per turn, unless paused. */
class Link {
  readonly received: JournalRecord[] = [];
  readonly failures: Error[] = [];
  readonly feed: LiveFeed;
  readonly #queue: (() => void)[] = [];
  readonly #payloads: StoredPayloads;
  #live = false;
  #paused = false;

  private constructor(
    dir: string,
    private writer: JournalWriter
  ) {
    this.#payloads = new StoredPayloads(dir);
    this.feed = new LiveFeed(
      {
        journal: new JournalReader(dir),
        payload: note => this.#read(note),
        subscribe: () =>
          new Promise(resolve => {
            this.#live = true;
            const liveFrom = this.writer.lastSeq + 1;
            this.#queue.push(() => resolve({ liveFrom }));
          }),
        pause: () => (this.#paused = true),
        resume: () => (this.#paused = false)
      },
      record => this.received.push(record),
      error => this.failures.push(error),
      new AbortController().signal
    );
  }

  static async open(dir: string): Promise<Link> {
    const link: Link = new Link(
      dir,
      await JournalWriter.open(dir, {
        onWritten: batch => link.#written(batch),
        onStored: record => link.#stored(record),
        onFault: () => undefined,
        segmentBytes: 2_000
      })
    );
    return link;
  }

  print(lines: number): void {
    for (let index = 0; index < lines; index++) {
      this.writer.append(3, [Buffer.alloc(40)]);
    }
  }

  /** Prints more than the limit for pushed records. */
  printMuch(): void {
    this.writer.append(3, [LARGE]);
  }

  /** Acts as a keeper that detects a slow gateway. */
  lag(): void {
    if (this.#live) {
      this.#live = false;
      const fromSeq = this.writer.lastSeq + 1;
      this.#queue.push(() => this.feed.take({ laggingFrom: fromSeq }));
    }
  }

  async step(): Promise<void> {
    if (!this.#paused) {
      this.#queue.shift()?.();
    }
    await turn();
  }

  async until(holds: () => boolean): Promise<void> {
    const deadline = Date.now() + 30_000;
    while (!holds() && Date.now() < deadline) {
      await this.step();
    }
  }

  get lastSeq(): number {
    return this.writer.lastSeq;
  }

  async close(): Promise<void> {
    await this.#payloads[Symbol.asyncDispose]();
    await this.writer.close();
  }

  /** Some payloads are not requested, and some are lost before they are read. */
  #read(note: LargeRecordRef): Promise<Buffer | null> | null {
    const kind = note.seq % 4;
    return kind === 0 ? null : kind === 1 ? Promise.resolve(null) : this.#payloads.read(note);
  }

  #stored(record: StoredRecord): void {
    if (this.#live) {
      const note = largeRecordRef(record);
      this.#queue.push(() => this.feed.take({ stored: note }));
    }
  }

  #written(batch: WrittenBatch): void {
    if (this.#live) {
      const body = batch.buffer.subarray(batch.start, batch.end);
      this.#queue.push(() => this.feed.take({ records: body }));
    }
  }
}

const LARGE = encodeV1({
  channel: 'iopub',
  parts: ['{}', '{}', '{}', '{}', 'x'.repeat(LARGE_BYTES)].map(part => Buffer.from(part))
});

const act = fc.oneof(
  fc.record({ print: fc.integer({ min: 1, max: 200 }) }),
  fc.constant('print much' as const),
  fc.constant('lag' as const),
  fc.constant('step' as const)
);

describe('the feed of a gateway', { timeout: 120_000 }, () => {
  it('has every record once and in order, whenever it lags', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(50), fc.array(act, { maxLength: 40 }), (before, acts) =>
        inTemporaryFolder(async dir => {
          const link = await Link.open(dir);
          link.print(before);
          await turn();
          const subscribed = link.feed.subscribe();
          await link.step();
          const { liveFrom } = await subscribed;
          for (const next of acts) {
            if (next === 'lag') {
              link.lag();
            } else if (next === 'step') {
              await link.step();
            } else if (next === 'print much') {
              link.printMuch();
            } else {
              link.print(next.print);
            }
          }
          await turn();
          await link.until(() => (link.received.at(-1)?.seq ?? liveFrom - 1) === link.lastSeq);
          expect(link.failures).toEqual([]);
          expect(link.received.map(({ seq }) => seq)).toEqual(
            Array.from({ length: link.lastSeq - liveFrom + 1 }, (_, index) => liveFrom + index)
          );
          for (const { seq, payload, isAbridged } of link.received) {
            if (isAbridged === true) expect(seq % 4).toBeLessThan(2);
            else if (payload.length > 40) expect(payload.equals(LARGE)).toBe(true);
          }
          await link.close();
        })
      ),
      { numRuns: 40 }
    );
  });

  it('shows a gap where the files are damaged, and continues after it', async () => {
    await inTemporaryFolder(async dir => {
      const link = await Link.open(dir);
      const subscribed = link.feed.subscribe();
      await link.step();
      await subscribed;
      link.lag();
      for (let index = 0; index < 100; index++) {
        link.print(1);
        await turn();
      }
      const file = join(dir, segmentFileName(1));
      const bytes = await readFile(file);
      bytes[bytes.length - 1]! ^= 1;
      await writeFile(file, bytes);
      await link.until(() => link.received.at(-1)?.seq === 100);
      const gap = link.received.find(({ channel }) => channel === RecordChannel.bridge)!;
      const content = JSON.parse(gap.payload.toString()) as { count: number };
      expect(content).toMatchObject({ type: 'gap', code: 'journal_damaged', count: 1 });
      expect(link.received).toHaveLength(100);
      expect(link.failures).toEqual([]);
      await link.close();
    });
  });
});
