import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecordChannel } from '../journal/record.js';
import { decodeV1, encodeV1, parseHeader, PART } from '../jupyter/index.js';
import type { WatchedMessage } from './message-watch.js';
import type { ClientRequest } from './refusal.js';
import { StateRequests } from './state-requests.js';

/** For each request that was forwarded: its subshell. */
let sentTo: unknown[];
let failures: number;
/** Idle statuses that were counted as answers of the subshell. */
let answers: number;
let sendFails: boolean;
let requests: StateRequests;

beforeEach(() => {
  vi.useFakeTimers();
  sentTo = [];
  failures = answers = 0;
  sendFails = false;
  requests = new StateRequests({
    isBusy: () => true,
    createSubshell: () => 'asked',
    send: (_msgId, frame) => {
      if (sendFails) throw new Error('the kernel cannot be reached');
      sentTo.push(parseHeader(decodeV1(frame).parts[PART.header]!).subshell_id ?? 'main');
    },
    answered: () => void answers++,
    failed: () => void failures++
  });
});

afterEach(() => {
  requests[Symbol.dispose]();
  vi.useRealTimers();
});

function question(msgId: string): ClientRequest {
  const header = { msg_id: msgId, msg_type: 'kernel_info_request', session: 'page' };
  const parts = [header, {}, {}, {}].map(part => Buffer.from(JSON.stringify(part)));
  return { message: { channel: 'shell', parts }, header, bytes: 100 };
}

const created: WatchedMessage = {
  channel: 'control',
  fromClient: false,
  header: { msg_id: 'r', msg_type: 'create_subshell_reply', session: 'kernel' },
  parent: { msg_id: 'asked', msg_type: 'create_subshell_request', session: 'gateway' },
  content: { status: 'ok', subshell_id: 's' }
};

/** The idle status of the kernel after the request with this id. */
function idleOf(msgId: string): Parameters<StateRequests['passed']>[0] {
  const header = { msg_id: `idle of ${msgId}`, msg_type: 'status', session: 'kernel' };
  const parent = { msg_id: msgId, msg_type: 'kernel_info_request', session: 'page' };
  const parts = [header, parent, {}, { execution_state: 'idle' }].map(part =>
    Buffer.from(JSON.stringify(part))
  );
  const payload = encodeV1({ channel: 'iopub', parts });
  return { seq: 1, channel: RecordChannel.iopub, timeNs: 0n, payload };
}

describe('a request about the state of a busy kernel', () => {
  it('waits for a subshell and uses it', () => {
    expect(requests.take(question('a'))).toBe(true);
    expect(sentTo).toEqual([]);
    requests.watched(created);
    expect(requests.take(question('b'))).toBe(true);
    expect(sentTo).toEqual(['s', 's']);
  });

  // In a timer, no other code would catch the error.
  it('is dropped, without another failure, when the kernel is no longer reachable', () => {
    sendFails = true;
    expect(requests.take(question('a'))).toBe(true);
    vi.advanceTimersByTime(60_000);
    expect([sentTo, failures]).toEqual([[], 1]);
  });

  it('waits behind the cell when no subshell is created, and later ones run beside it once a subshell exists', () => {
    expect(requests.take(question('a'))).toBe(true);
    vi.advanceTimersByTime(60_000);
    expect(sentTo).toEqual(['main']);
    expect(requests.take(question('b'))).toBe(false);
    requests.watched(created);
    expect(requests.take(question('c'))).toBe(true);
    expect(sentTo).toEqual(['main', 's']);
  });

  it('counts as answered with the idle status of its subshell', () => {
    requests.take(question('a'));
    requests.watched(created);
    requests.passed(idleOf('a'));
    expect(answers).toBe(1);
  });

  // Otherwise each message of the kernel is decoded once more, for the rest of the kernel's life.
  it('is not tracked when no subshell is created: its idle status comes from the main shell', () => {
    requests.take(question('a'));
    vi.advanceTimersByTime(60_000);
    requests.passed(idleOf('a'));
    expect(answers).toBe(0);
  });
});
