import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ChannelsClient, isStatus, type Message } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { CONFIRMATION_DEFAULTS } from './confirmations.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll({ limits: { congestedBytes: 64 * 1024, refillBytes: 16 * 1024 } });
let kernelId: string;
let count = 0;
/** A separate client for each test. */
let sessionId: string;

beforeAll(async () => {
  kernelId = await bridge.startKernel({ name: 'lossless' });
});

beforeEach(() => (sessionId = `resuming-${count++}`));

/** Prints numbered lines, and waits in the middle for an answer on stdin before it continues. */
const COUNT = `
from IPython.display import display
for n in range(LINES):
    display({'text/plain': str(n)}, raw=True)
    if n == LINES // 2: input('half')
`;

function counting(lines: number): string {
  return COUNT.replaceAll('LINES', String(lines));
}

function numbers(messages: readonly Message[], id: string): number[] {
  return messages
    .filter(({ header, parent }) => header.msg_type === 'display_data' && parent.msg_id === id)
    .map(({ content }) => Number((content['data'] as Record<string, string>)['text/plain']));
}

function unique(...clients: ChannelsClient[]): Message[] {
  const seen = new Set<string>();
  return clients
    .flatMap(client => client.messages)
    .filter(({ header }) => !seen.has(header.msg_id) && seen.add(header.msg_id));
}

function upTo(length: number): number[] {
  return Array.from({ length }, (_, n) => n);
}

describe('a client that returns with its session_id', () => {
  it('[22] gets everything that it missed, in order, the reply included', async () => {
    using before = await bridge.connect(kernelId, { sessionId });
    const id = before.execute(counting(100), { allow_stdin: true });
    await before.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    await before.abort();

    using other = await bridge.connect(kernelId);
    // The stdin question went to the client that is away; it stays stored for it.
    using again = await bridge.connect(kernelId, { sessionId });
    again.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await again.done(id);
    expect(numbers(unique(before, again), id)).toEqual(upTo(100));
    expect(other.messages.filter(({ channel }) => channel === 'stdin')).toEqual([]);
  });

  it('[22] gets output and replies from the time while no client was attached', async () => {
    using asking = await bridge.connect(kernelId, { sessionId });
    const id = asking.execute(counting(50), { allow_stdin: true });
    await asking.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    await asking.abort();
    await ended();
    // Another socket with the same session ends the cell, and disconnects without having read the rest.
    using helper = await bridge.connect(kernelId, { sessionId: null });
    Object.defineProperty(helper, 'sessionId', { value: sessionId });
    helper.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await helper.until(() => helper.answers(id).some(message => isStatus(message, 'idle')));

    using again = await bridge.connect(kernelId, { sessionId });
    await again.done(id);
    expect(numbers(unique(asking, again), id)).toEqual(upTo(50));
  });

  it('[22] gets each message once within one connection', async () => {
    using before = await bridge.connect(kernelId, { sessionId });
    const id = before.execute(counting(500), { allow_stdin: true });
    await before.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    await before.abort();
    using again = await bridge.connect(kernelId, { sessionId });
    again.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await again.done(id);
    const ids = again.messages
      .filter(({ parent }) => parent.msg_id === id)
      .map(({ header }) => header.msg_id);
    expect(ids).toHaveLength(new Set(ids).size);
  });

  it('[22] does not get messages again that its pongs have confirmed', async () => {
    using before = await bridge.connect(kernelId, { sessionId });
    const id = before.execute(counting(20), { allow_stdin: true });
    await before.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    // The stdin question uses another socket and may arrive before output.
    await before.until(() => numbers(before.messages, id).at(-1) === 10);
    await confirmed(sessionId);
    await before.abort();
    using again = await bridge.connect(kernelId, { sessionId });
    again.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await again.done(id);
    expect(numbers(again.messages, id)).toEqual(upTo(20).slice(11));
  });

  it('[22] may itself name the position where it resumes', async () => {
    using before = await bridge.connect(kernelId, { sessionId });
    // One write, and so one message, however long the kernel pauses within the cell.
    const id = before.execute('print("once", end="")');
    await before.done(id);
    await confirmed(sessionId);
    const first = await seqOf(id, 'stream');
    // Not the reply: it uses another socket, and may precede the output.
    using again = await bridge.connect(kernelId, { sessionId, resume: first - 1 });
    await again.until(() => again.answers(id).some(message => isStatus(message, 'idle')));
    expect(again.printed(id)).toBe('once');
    using after = await bridge.connect(kernelId, { sessionId, resume: first });
    await after.until(() => after.answers(id).some(message => isStatus(message, 'idle')));
    expect(after.printed(id)).toBe('');
  });
});

describe('a client of a gateway with a back-step', () => {
  it('[22] gets that many confirmed records again, before the unconfirmed ones', async () => {
    await using other = await TemporaryGateway.start({
      confirmation: { ...CONFIRMATION_DEFAULTS, backStep: 10 }
    });
    await other.gateway.ready;
    const id = await other.startKernel({ name: 'lossless' });
    using before = await other.connect(id, { sessionId });
    const cell = before.execute(COUNT.replaceAll('LINES', '20').replace(/^ +if .*$/m, ''));
    await before.done(cell);
    await confirmed(sessionId, other.gateway.registry.get(id));
    await before.abort();
    using again = await other.connect(id, { sessionId });
    await again.run('pass');
    // The reply uses another socket: its place among the ten is undefined.
    const ids = (messages: readonly Message[]): string[] => messages.map(({ header }) => header.msg_id);
    expect(ids(again.answers(cell))).toEqual(ids(before.messages.slice(-10)));
    expect(ids(before.messages.slice(-10))).toEqual(ids(before.answers(cell).slice(-10)));
  });
});

describe('a client with a new session_id', () => {
  it('[22] starts live', async () => {
    using before = await bridge.connect(kernelId, { sessionId });
    await before.run('print("past")');
    using fresh = await bridge.connect(kernelId);
    await fresh.run('pass');
    expect(fresh.messages.filter(({ header }) => header.msg_type === 'stream')).toEqual([]);
  });
});

describe('a client that reads slowly', () => {
  it('[12] gets everything from the files, while the gateway buffers only a little for it', async () => {
    using slow = await bridge.connect(kernelId, { sessionId });
    using quick = await bridge.connect(kernelId);
    await Promise.all([slow.run('pass'), quick.run('pass')]);
    slow.pause();
    const lines = 3000;
    const id = quick.execute(`
from IPython.display import display
for n in range(${lines}): display({'text/plain': str(n), 'text/html': 'x' * 4000}, raw=True)
`);
    await quick.done(id);
    expect(numbers(quick.messages, id)).toEqual(upTo(lines));
    slow.resume();
    await slow.until(() => slow.answers(id).some(message => isStatus(message, 'idle')));
    expect(numbers(slow.messages, id)).toEqual(upTo(lines));
  });
});

/** Resolves when the gateway has noticed that no client is attached any more. */
async function ended(): Promise<void> {
  const { registry } = bridge.gateway;
  await vi.waitUntil(() => registry.get(kernelId).connections === 0, { timeout: 60_000 });
}

/** Resolves when the gateway has noticed that the client has all records. */
async function confirmed(client: string, kernel = bridge.gateway.registry.get(kernelId)): Promise<void> {
  const { PositionStore } = await import('../journal/index.js');
  await vi.waitUntil(
    () => {
      const store = new PositionStore(`${kernel.directory}/positions`, () => undefined);
      const seq = store.get(client);
      store.close();
      return seq === kernel.lastSeq;
    },
    { timeout: 60_000 }
  );
}

async function seqOf(parentId: string, msgType: string): Promise<number> {
  const answer = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/journal?limit=10000`);
  const { entries } = answer.body as {
    entries: {
      seq: number;
      header: { msg_type: string } | null;
      parent_header: { msg_id?: string } | null;
    }[];
  };
  const found = entries.find(
    ({ header, parent_header }) => header?.msg_type === msgType && parent_header?.msg_id === parentId
  );
  if (!found) throw new Error(`no ${msgType} in the journal`);
  return found.seq;
}
