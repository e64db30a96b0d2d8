import { describe, expect, it } from 'vitest';
import { type JournalRecord, RecordChannel } from '../journal/record.js';
import { type ChannelName, encodeV1 } from '../jupyter/index.js';
import { type LastMessages, type ResumePoint, resumePoint } from './resume-point.js';

/** A journal in short notation: `iopub:a` is a message of the kernel, numbered from 1. */
class Journal {
  readonly #records: JournalRecord[];

  constructor(...output: readonly string[]) {
    this.#records = output.map((words, index) => {
      const [channel, id] = words.split(':') as [ChannelName, string];
      const header = { msg_id: id, msg_type: 'stream', session: 'kernel' };
      const parts = [header, {}, {}, {}].map(part => Buffer.from(JSON.stringify(part)));
      return {
        seq: index + 1,
        timeNs: 0n,
        channel: RecordChannel[channel],
        payload: encodeV1({ channel, parts })
      };
    });
  }

  get newest(): number {
    return this.#records.length;
  }

  readonly read = async function* (this: Journal, from: number): AsyncGenerator<JournalRecord[]> {
    for (const record of this.#records.slice(from - 1)) yield await Promise.resolve([record]);
  }.bind(this);
}

function find(journal: Journal, renumberedFrom: number, resume: number, last: object): Promise<ResumePoint> {
  const known: LastMessages = new Map(Object.entries(last) as [ChannelName, string][]);
  return resumePoint(resume, known, { renumberedFrom, newest: journal.newest, read: journal.read });
}

describe('a client that names its last messages', () => {
  const journal = new Journal('iopub:a', 'iopub:b', 'shell:r', 'iopub:c', 'iopub:d');

  it('continues after its number if that is still the same message', async () => {
    expect(await find(journal, 2, 4, { iopub: 'c', shell: 'r' })).toEqual({ position: 4, has: new Map() });
  });

  it('continues after its number if numbers were never reused', async () => {
    expect(await find(journal, 4, 2, { iopub: 'b' })).toEqual({ position: 2, has: new Map() });
  });

  it('is recognised channel by channel if its number is another message now', async () => {
    // The client had a, b, c and then the reply; the kernel has resent the reply before them.
    expect(await find(journal, 2, 5, { iopub: 'c', shell: 'r' })).toEqual({
      position: 1,
      has: new Map([
        [RecordChannel.iopub, 4],
        [RecordChannel.shell, 3]
      ])
    });
  });

  it('is recognised if its number is past the end', async () => {
    expect(await find(journal, 3, 900, { iopub: 'd' })).toEqual({
      position: 2,
      has: new Map([[RecordChannel.iopub, 5]])
    });
  });

  it('receives everything in doubt when none of its messages is found', async () => {
    expect(await find(journal, 3, 900, { iopub: 'x' })).toEqual({ position: 2, has: new Map() });
    expect(await find(journal, 6, 900, { iopub: 'x' })).toEqual({ position: 5, has: new Map() });
  });
});
