import { describe, expect, it, vi } from 'vitest';
import { FROM_CLIENT, type JournalRecord, RecordChannel } from '../journal/record.js';
import { encodeV1 } from '../jupyter/index.js';
import { newMessage } from '../jupyter/kernel-message.js';
import { Outbox } from './outbox.js';

const made = new Map<string, Buffer>();

function request(msgId: string): Buffer {
  const parts = newMessage({ msgId, msgType: 'execute_request', session: 's' });
  const frame = made.get(msgId) ?? encodeV1({ channel: 'shell', parts });
  made.set(msgId, frame);
  return frame;
}

function record(msgId: string, channel: number = RecordChannel.shell | FROM_CLIENT): JournalRecord {
  return { seq: 1, timeNs: 0n, channel, payload: request(msgId) };
}

function filled(...ids: string[]): Outbox {
  const outbox = new Outbox();
  for (const id of ids) outbox.add(id, request(id));
  return outbox;
}

describe('requests on their way to a keeper', () => {
  it('leave in order, once, and a second time if no journal has them', () => {
    const outbox = filled('a', 'b', 'c');
    expect(outbox.takeWaiting()).toEqual(['a', 'b', 'c'].map(request));
    expect(outbox.takeWaiting()).toEqual([]);
    outbox.journaled(record('b'));
    outbox.journaled(record('c', RecordChannel.shell));
    outbox.add('d', request('d'));
    outbox.requeueSent();
    expect(outbox.takeWaiting()).toEqual(['a', 'c', 'd'].map(request));
    for (const id of ['a', 'c', 'd']) outbox.journaled(record(id));
    expect(outbox.isEmpty).toBe(true);
  });

  it('are dropped if no keeper is left, except for those already handed over', () => {
    const outbox = filled('a');
    outbox.takeWaiting();
    outbox.add('b', request('b'));
    expect(outbox.dropWaiting()).toBe(1);
    outbox.requeueSent();
    expect(outbox.takeWaiting()).toEqual([request('a')]);
  });

  it('that a keeper has not processed for long are dropped, but waiting ones are not', () => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
    try {
      const outbox = filled('old');
      outbox.takeWaiting();
      outbox.add('waits', request('waits'));
      clock.mockReturnValue(31_000);
      outbox.add('new', request('new'));
      outbox.requeueSent();
      expect(outbox.takeWaiting()).toEqual(['waits', 'new'].map(request));
    } finally {
      clock.mockRestore();
    }
  });
});
