import { NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ChannelsClient, isStatus, type Message } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import type { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let kernelId: string;
let count = 0;
let sessionId: string;

beforeAll(async () => {
  kernelId = await bridge.startKernel({ name: 'lossless' });
});

beforeEach(() => (sessionId = `numbered-${count++}`));

function connect(options: Parameters<TemporaryGateway['connect']>[1] = {}): Promise<ChannelsClient> {
  const protocols = [NUMBERED_SUBPROTOCOL, 'v1.kernel.websocket.jupyter.org'];
  return bridge.connect(kernelId, { sessionId, protocols, ...options });
}

/** Numbers of journaled messages, in order of arrival. */
function seqs({ messages }: ChannelsClient): number[] {
  return messages.flatMap(({ seq }) => (seq === null || seq === 0 ? [] : [seq]));
}

function lastSeq(client: ChannelsClient): number {
  return seqs(client).at(-1) ?? 0;
}

function displayed(messages: readonly Message[], id: string): string[] {
  return messages
    .filter(({ header, parent }) => header.msg_type === 'display_data' && parent.msg_id === id)
    .map(({ content }) => (content['data'] as Record<string, string>)['text/plain'] ?? '');
}

const COUNT = `
from IPython.display import display
for n in range(400):
    display({'text/plain': str(n)}, raw=True)
    if n % 100 == 50: input('go on')
`;

describe('numbered channels', () => {
  it('[22] are chosen when offered, and first report the position of the client', async () => {
    using client = await connect();
    expect(client.protocol).toBe(NUMBERED_SUBPROTOCOL);
    const attached = await client.until(() => client.notes[0]);
    expect(attached).toMatchObject({ op: 'attached' });
    const live = await client.until(() => client.notes[1]);
    expect(live).toMatchObject({ op: 'live' });
  });

  it('[22] give every message the number of its record, in increasing order', async () => {
    using client = await connect();
    await client.run('print(1); 2');
    const numbers = seqs(client);
    expect(numbers.length).toBeGreaterThan(4);
    expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
    // A kernel that has started by now is first announced by an unnumbered message.
    const first = client.messages.find(({ seq }) => seq === numbers[0]);
    const { body } = await bridge.rest(
      'GET',
      `/bridge/v1/kernels/${kernelId}/journal?from=${numbers[0]}&limit=1`
    );
    expect(body).toMatchObject({
      entries: [{ seq: numbers[0], header: { msg_id: first?.header.msg_id } }]
    });
  });

  it('[22] lose nothing and repeat nothing, however often the connection is cut, with resume alone', async () => {
    const messages: Message[] = [];
    const answered = new Set<string>();
    let client = await connect();
    const id = client.execute(COUNT, { allow_stdin: true });
    for (let question = 1; question <= 4; question++) {
      // The next socket does not repeat messages that an earlier one delivered: the stdin question may be among those.
      const requested = await client.until(() =>
        [...messages, ...client.messages].find(
          ({ header, parent }) =>
            header.msg_type === 'input_request' && parent.msg_id === id && !answered.has(header.msg_id)
        )
      );
      answered.add(requested.header.msg_id);
      client.send('stdin', 'input_reply', { value: '', status: 'ok' });
      // Cut while output is in flight: the page resumes by the messages that it has, and acknowledges none.
      const before = client.messages.length;
      await client.until(() => client.messages.length > before + 3);
      await client.abort();
      messages.push(...client.messages);
      client = await connect({ resume: lastOf(messages) });
    }
    const got = (test: (message: Message) => boolean): boolean =>
      [...messages, ...client.messages].some(message => message.parent.msg_id === id && test(message));
    // The reply uses another kernel socket than the output and may arrive before its end: both are awaited.
    await client.until(() => got(({ channel }) => channel === 'shell'));
    await client.until(() => got(message => isStatus(message, 'idle')));
    messages.push(...client.messages);
    client[Symbol.dispose]();
    expect(displayed(messages, id)).toEqual(Array.from({ length: 400 }, (_, n) => String(n)));
    const journaled = messages.filter(({ seq }) => seq !== 0).map(({ header }) => header.msg_id);
    expect(journaled).toHaveLength(new Set(journaled).size);
  });

  it('[22] continue after the last acknowledgement when the client names no position', async () => {
    using before = await connect();
    const id = before.execute(COUNT.replace('400', '60'), { allow_stdin: true });
    await before.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    // The stdin question uses another socket and may arrive before output.
    const { seq: tenth } = await before.until(
      () => before.answers(id).filter(({ header }) => header.msg_type === 'display_data')[9]
    );
    before.acknowledge(tenth!);
    const control = await before.request('control', 'kernel_info_request');
    expect(control.seq).toBeGreaterThan(tenth!);
    await before.abort();
    using again = await connect();
    again.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await again.done(id);
    expect(displayed(again.messages, id)).toEqual(Array.from({ length: 50 }, (_, n) => String(n + 10)));
  });

  it('[22] do not count a pong as an acknowledgement', async () => {
    using before = await connect();
    const own = before.execute('print("not acknowledged")');
    await before.done(own);
    await before.abort();
    using again = await connect();
    await again.done(own);
    expect(again.printed(own)).toBe('not acknowledged\n');
  });

  it('[22] ignore an acknowledgement of a record that was never sent', async () => {
    using before = await connect();
    await before.run('pass');
    before.acknowledge(lastSeq(before) + 1_000_000);
    const id = before.execute('print("later")');
    await before.done(id);
    await before.abort();
    using again = await connect();
    await again.done(id);
    expect(again.printed(id)).toBe('later\n');
  });

  it('[22] report it when the journal ends before the position from which a client resumes', async () => {
    using client = await connect({ resume: 999_999_999 });
    const attached = await client.until(() => client.notes[0]);
    expect(attached).toMatchObject({ op: 'attached' });
    expect(attached.position).toBeLessThan(999_999_999);
    await client.run('pass');
  });

  it('[13] do not number messages of the gateway itself', async () => {
    using running = await bridge.connect(kernelId);
    const id = running.execute('input("wait ")', { allow_stdin: true });
    await running.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    // The stdin question uses another socket and may arrive before this.
    await running.until(() => running.answers(id).some(message => isStatus(message, 'busy')));
    using late = await connect();
    const busy = await late.first(({ header }) => header.msg_type === 'status');
    expect(busy).toMatchObject({ seq: 0, content: { execution_state: 'busy' } });
    running.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await running.done(id);
  });

  it.each(['{', '{"op":"ack"}', '{"op":"ack","seq":-1}', '{"op":"ack","seq":1,"more":1}', '{"op":"other"}'])(
    'end the connection at a note like %s, and nothing else',
    async note => {
      using other = await connect({ sessionId: `${sessionId}-other` });
      using client = await connect();
      client.sendRaw(note);
      expect((await client.untilClosed()).code).toBe(1007);
      await other.run('pass');
    }
  );
});

describe('a reloaded page with another session id', () => {
  it("[11] [22] gets replies and questions of the earlier page, when it names that page's session", async () => {
    const before = await bridge.connect(kernelId, { sessionId });
    const id = before.execute('print(input("who? "))', { allow_stdin: true });
    const requested = await before.first(
      ({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id
    );
    const first = await seqBefore(id);
    await before.abort();
    const { registry } = bridge.gateway;
    await vi.waitUntil(() => registry.get(kernelId).connections === 0, { timeout: 60_000 });

    using other = await bridge.connect(kernelId);
    using after = await connect({
      sessionId: `${sessionId}-new`,
      query: `?predecessor=${sessionId}`,
      resume: first
    });
    const again = await after.first(({ header }) => header.msg_type === 'input_request');
    expect(again.header.msg_id).toBe(requested.header.msg_id);
    after.send('stdin', 'input_reply', { value: 'the same person', status: 'ok' });
    await after.done(id);
    expect(after.printed(id)).toBe('the same person\n');
    expect(other.messages.filter(({ channel }) => channel !== 'iopub')).toEqual([]);
  });

  it('[11] does not take over a session that is attached', async () => {
    using owner = await bridge.connect(kernelId, { sessionId });
    using takeover = await connect({ sessionId: `${sessionId}-new`, query: `?predecessor=${sessionId}` });
    await owner.run('pass');
    await takeover.run('pass');
    const own = takeover.messages.filter(({ channel }) => channel === 'shell');
    expect(own.map(({ parent }) => parent.session)).toEqual([`${sessionId}-new`]);
  });
});

function lastOf(messages: readonly Message[]): number {
  return Math.max(...messages.map(({ seq }) => seq ?? 0));
}

/** The number before the request with this id. */
async function seqBefore(msgId: string): Promise<number> {
  const { body } = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/journal?limit=10000`);
  const { entries } = body as { entries: { seq: number; header: { msg_id: string } | null }[] };
  const request = entries.find(({ header }) => header?.msg_id === msgId);
  if (!request) throw new Error('the request is not in the journal');
  return request.seq - 1;
}
