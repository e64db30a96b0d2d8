import { PassThrough } from 'node:stream';
import { describe, expect, it, vi } from 'vitest';
import { type GapRecord, type JournalRecord, RecordChannel } from '../journal/record.js';
import type { KernelSnapshot } from '../keeper-protocol/contract.js';
import { decodeV1, encodeV1, parseObject, PART } from '../jupyter/index.js';
import { ClientFeed } from './client-feed.js';
import type { GatheringWebSocket } from '../http/gathering-websocket.js';
import { gapNotice } from './made-messages.js';
import { OutgoingMessage } from './outgoing-message.js';

const gap = (fields: Partial<GapRecord> = {}): GapRecord => ({
  type: 'gap',
  count: 3,
  code: 'journal_disk_full',
  reason: 'The disk was full.',
  from: 1000,
  to: 2000,
  ...fields
});

const record = (seq: number, payload: Buffer, channel: number): JournalRecord => ({
  seq,
  timeNs: 0n,
  channel,
  payload
});

const gapRecord = (seq: number, content: GapRecord): JournalRecord =>
  record(seq, Buffer.from(JSON.stringify(content)), RecordChannel.bridge);

function output(seq: number, request: string | null): JournalRecord {
  const header = { msg_id: `m${seq}`, msg_type: 'stream', session: 'kernel' };
  const parent = request === null ? {} : { msg_id: request, msg_type: 'execute_request', session: 'client' };
  const parts = [header, parent, {}, {}].map(part => Buffer.from(JSON.stringify(part)));
  return record(seq, encodeV1({ channel: 'iopub', parts }), RecordChannel.iopub);
}

/** Records what a client receives, in order: `seq`, or the notice of a gap. */
class Client {
  readonly got: (number | string)[] = [];
  readonly feed: ClientFeed;
  newest: number;

  constructor(
    position: number,
    private readonly journal: readonly JournalRecord[]
  ) {
    this.newest = journal.at(-1)?.seq ?? 0;
    this.feed = new ClientFeed({
      socket: {
        unsentBytes: 0,
        gather: (_opcode: number, _prefix: null, frame: Buffer) => this.got.push(seqOf(frame))
      } as unknown as GatheringWebSocket,
      stream: new PassThrough(),
      framing: 'v1',
      position,
      newest: () => this.newest,
      read: from => this.#read(from),
      owns: () => false,
      moved: () => undefined,
      stateChanged: () => undefined,
      missing: ({ count }, parent) => {
        const request = parent === null ? null : parseObject(parent, 'parent')['msg_id'];
        this.got.push(`${count} missing in ${String(request)}`);
      },
      congested: () => undefined,
      failed: error => this.got.push(String(error))
    });
  }

  async caughtUp(): Promise<void> {
    this.feed.wake();
    await vi.waitFor(() => expect(this.feed.state).toBe('live'), 30_000);
  }

  live(next: JournalRecord): void {
    this.newest = next.seq;
    this.feed.live(new OutgoingMessage(next));
  }

  async *#read(from: number): AsyncGenerator<JournalRecord[]> {
    await Promise.resolve();
    yield this.journal.filter(({ seq }) => seq >= from);
  }
}

function seqOf(frame: Buffer): number {
  const { parts } = decodeV1(frame);
  return Number(String(parseObject(parts[PART.header]!, 'header')['msg_id']).slice(1));
}

describe('a client at a gap', () => {
  it('is notified immediately when the gap occurs while the client is attached', async () => {
    const client = new Client(0, [output(1, 'a')]);
    await client.caughtUp();
    client.live(gapRecord(2, gap()));
    client.live(output(3, 'b'));
    expect(client.got).toEqual([1, '3 missing in null', 3]);
  });

  it('is notified of a gap in the replay with the next output', async () => {
    const client = new Client(0, [
      output(1, 'a'),
      gapRecord(2, gap()),
      gapRecord(3, gap({ count: 9 })),
      output(4, null),
      output(5, 'b'),
      output(6, 'b')
    ]);
    await client.caughtUp();
    expect(client.got).toEqual([1, 4, '3 missing in b', '9 missing in b', 5, 6]);
  });

  it('is notified of a gap at the end when it has caught up', async () => {
    const client = new Client(1, [output(1, 'a'), gapRecord(2, gap())]);
    await client.caughtUp();
    expect(client.got).toEqual(['3 missing in null']);
  });

  it('continues after the records that a gap covers, and is notified of the gap once', async () => {
    const client = new Client(0, [gapRecord(1, gap({ count: 40, fromSeq: 1, toSeq: 40 })), output(41, 'a')]);
    await client.caughtUp();
    expect(client.feed.position).toBe(41);
    client.live(gapRecord(42, gap({ count: 2, fromSeq: 42, toSeq: 43 })));
    client.live(output(44, 'a'));
    expect(client.got).toEqual(['40 missing in a', 41, '2 missing in null', 44]);
  });
});

describe('the notice of a gap', () => {
  const snapshot = { kernelSession: 'kernel', busyParent: '{"msg_id":"running"}' } as KernelSnapshot;

  it('belongs to the running request when no output names a better one', () => {
    const { parts } = decodeV1(gapNotice(snapshot, gap(), null)!);
    expect(parts[PART.parentHeader]!.toString()).toBe('{"msg_id":"running"}');
    const idle = { ...snapshot, busyParent: null };
    expect(decodeV1(gapNotice(idle, gap(), null)!).parts[PART.parentHeader]!.toString()).toBe('{}');
  });

  it.each([
    [1, '1 message is'],
    [3, '3 messages are'],
    [null, 'An unknown number of messages is']
  ])('states the count and the reason when %s messages are missing', (count, text) => {
    const { channel, parts } = decodeV1(gapNotice(snapshot, gap({ count }), null)!);
    expect(channel).toBe('iopub');
    expect(parseObject(parts[PART.content]!, 'content')).toEqual({
      name: 'stderr',
      text: `[tpulab] ${text} missing here. The disk was full.\n`
    });
    expect(parseObject(parts[PART.metadata]!, 'metadata')).toEqual({ tpulab: { gap: gap({ count }) } });
  });

  it('has an id from the numbers of the missing records, whenever they were found missing, otherwise from the time', () => {
    const id = (fields: Partial<GapRecord>) =>
      parseObject(decodeV1(gapNotice(snapshot, gap(fields), null)!).parts[PART.header]!, 'header')['msg_id'];
    const numbered = { fromSeq: 1, toSeq: 40 };
    expect(id({ ...numbered, from: 3000, to: 3000 })).toBe(id(numbered));
    expect(id({ ...numbered, toSeq: 41 })).not.toBe(id(numbered));
    expect(id({})).toBe(id({ count: null }));
    expect(id({ from: 1500 })).not.toBe(id({}));
  });

  it('has the session of the kernel, and is not made for a kernel that has none yet', () => {
    const { parts } = decodeV1(gapNotice(snapshot, gap(), null)!);
    expect(parseObject(parts[PART.header]!, 'header')).toMatchObject({
      session: 'kernel',
      msg_type: 'stream'
    });
    expect(gapNotice({ ...snapshot, kernelSession: null }, gap(), null)).toBeNull();
  });
});
