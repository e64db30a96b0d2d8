import { once } from 'node:events';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { type ChannelsClient, isStatus, type Message } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { EventsPage } from '../telemetry/testing/events-page.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll({ maxPayloadBytes: 1024 * 1024 });
let kernelId: string;

beforeAll(async () => {
  kernelId = await bridge.startKernel();
});

function types(messages: readonly Message[]): string[] {
  return messages.map(({ channel, header }) => `${channel}:${header.msg_type}`);
}

/** A client at the newest record: it has received an answer. */
async function attached(options: Parameters<TemporaryGateway['connect']>[1] = {}): Promise<ChannelsClient> {
  const client = await bridge.connect(kernelId, options);
  await client.run('pass');
  return client;
}

// A client like nbclient waits only for its reply; without one it would wait forever.
describe('a kernel that ends', () => {
  it.each([
    ['by itself', async (client: ChannelsClient) => client.execute('import os; os._exit(1)')],
    [
      'by a restart',
      async (client: ChannelsClient, id: string) => {
        const cell = client.execute("print('here', flush=True); import time; time.sleep(600)");
        await client.until(() => client.printed(cell).includes('here') || null);
        await bridge.rest('POST', `/api/kernels/${id}/restart`);
        return cell;
      }
    ]
  ])('%s answers a waiting stock client, and runs its next request', async (_how, end) => {
    const id = await bridge.startKernel();
    using client = await bridge.connect(id);
    await client.run('pass');
    const cell = await end(client, id);
    const reply = await client.until(() =>
      client.messages.find(({ channel, parent }) => channel === 'shell' && parent.msg_id === cell)
    );
    expect(reply.content).toMatchObject({ status: 'error', ename: 'DeadKernelError' });
    expect(reply.content['evalue']).toMatch(/^The kernel ended before it answered: /);
    await client.until(() =>
      client.messages.find(message => isStatus(message, 'idle') && message.parent.msg_id === cell)
    );
    await client.run('1 + 1');
    await bridge.rest('DELETE', `/api/kernels/${id}`);
  });
});

describe('framing', () => {
  it('[8] echoes the v1 subprotocol when offered', async () => {
    using client = await bridge.connect(kernelId, {
      protocols: ['other', 'v1.kernel.websocket.jupyter.org']
    });
    expect(client.protocol).toBe('v1.kernel.websocket.jupyter.org');
  });

  it('[8] a cell run over v1 returns its outputs in order and its reply', async () => {
    using client = await attached();
    // Without the line end: Python writes it separately, which becomes a separate message if the kernel pauses before it.
    const answers = await client.run("print('a', end=''); 2");
    expect(types(answers.filter(({ channel }) => channel === 'iopub'))).toEqual([
      'iopub:status',
      'iopub:execute_input',
      'iopub:stream',
      'iopub:execute_result',
      'iopub:status'
    ]);
    expect(answers.find(({ channel }) => channel === 'shell')?.content).toMatchObject({ status: 'ok' });
  });

  it('[8] [10] without a subprotocol the legacy framing is used, both ways', async () => {
    using client = await attached({ protocols: [] });
    expect(client.protocol).toBe('');
    const id = client.execute("print('old')");
    await client.done(id);
    expect(client.printed(id)).toBe('old\n');
  });

  it.each([['v1.kernel.websocket.jupyter.org'], []])(
    '[9] buffers come back byte for byte (%s)',
    async (...protocols) => {
      using client = await attached({ protocols });
      await client.run(
        'from comm import get_comm_manager\n' +
          'def echo(comm, message):\n' +
          '    comm.on_msg(lambda m: comm.send({}, buffers=m["buffers"][::-1]))\n' +
          'get_comm_manager().register_target("echo", echo)'
      );
      const commId = `comm-${protocols.length}`;
      client.send('shell', 'comm_open', { comm_id: commId, target_name: 'echo', data: {} });
      const buffers = [
        Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
        Buffer.alloc(0),
        Buffer.alloc(70_000, 7)
      ];
      client.send('shell', 'comm_msg', { comm_id: commId, data: {} }, buffers);
      const answer = await client.first(
        ({ header, content }) => header.msg_type === 'comm_msg' && content['comm_id'] === commId
      );
      expect(answer.buffers.map(buffer => buffer.toString('hex'))).toEqual(
        [...buffers].reverse().map(buffer => buffer.toString('hex'))
      );
    }
  );
});

describe('addressees', () => {
  it('[11] iopub goes to every client, a reply only to the client that sent the request', async () => {
    using asking = await attached();
    using other = await attached();
    const id = asking.execute("print('for all')");
    await asking.done(id);
    await other.until(() => other.answers(id).some(message => isStatus(message, 'idle')));
    expect(other.printed(id)).toBe('for all\n');
    expect(other.answers(id).filter(({ channel }) => channel !== 'iopub')).toEqual([]);
  });

  it('[11] a question on stdin reaches the client that ran the cell, and so does its answer', async () => {
    using asking = await attached();
    using other = await attached();
    const id = asking.execute("print(input('name? '))", { allow_stdin: true });
    const question = await asking.first(({ header }) => header.msg_type === 'input_request');
    expect(question).toMatchObject({ channel: 'stdin', content: { prompt: 'name? ' } });
    asking.send('stdin', 'input_reply', { value: 'Ada', status: 'ok' });
    await asking.done(id);
    expect(asking.printed(id)).toBe('Ada\n');
    await other.until(() => other.answers(id).some(message => isStatus(message, 'idle')));
    expect(other.messages.filter(({ channel }) => channel === 'stdin')).toEqual([]);
  });

  it("[11] a client that names no session_id gets the replies for the session in its messages' headers", async () => {
    using client = await bridge.connect(kernelId, { sessionId: null });
    const answers = await client.run('1');
    expect(types(answers)).toContain('shell:execute_reply');
  });

  it('[11] control is a separate channel: it answers while a cell runs', async () => {
    using client = await attached();
    const id = client.execute('input("wait ")', { allow_stdin: true });
    await client.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    const request = client.send('control', 'kernel_info_request', {});
    const reply = await client.first(
      ({ parent, channel }) => channel === 'control' && parent.msg_id === request
    );
    expect(reply.header.msg_type).toBe('kernel_info_reply');
    client.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await client.done(id);
  });

  it('[11] a second socket with the same session_id replaces the first', async () => {
    using first = await attached({ sessionId: 'twin' });
    using second = await bridge.connect(kernelId, { sessionId: 'twin' });
    expect((await first.untilClosed()).code).toBe(4001);
    expect(types(await second.run('1'))).toContain('shell:execute_reply');
    expect(second.closed).toBeNull();
  });
});

describe('messages of a client', () => {
  it.each([
    ['an empty frame', Buffer.alloc(0)],
    ['a frame of noise', Buffer.from('not a frame at all, but long enough to be one')],
    ['text that is not JSON', '{'],
    ['JSON that is not a message', '[]'],
    [
      'a message on iopub',
      JSON.stringify({ channel: 'iopub', header: { msg_id: '1', msg_type: 't', session: 's' }, content: {} })
    ],
    [
      'a header without a type',
      JSON.stringify({ channel: 'shell', header: { msg_id: '1', session: 's' }, content: {} })
    ]
  ])('%s ends its connection and nothing else', async (_what, frame) => {
    using other = await attached();
    using client = await bridge.connect(kernelId);
    client.sendRaw(frame);
    expect((await client.untilClosed()).code).toBe(1007);
    expect(types(await other.run('1'))).toContain('shell:execute_reply');
  });

  it('a frame above the limit ends its connection', async () => {
    using client = await bridge.connect(kernelId);
    client.sendRaw(Buffer.alloc(1024 * 1024 + 1));
    expect((await client.untilClosed()).code).toBe(1009);
  });

  it.each(['?session_id=' + 'x'.repeat(65), '?resume=-1', '?resume=1e3', '?resume='])(
    'the query %s is refused',
    async query => {
      await expect(bridge.connect(kernelId, { sessionId: null, query })).rejects.toThrow('400');
    }
  );
});

describe('state', () => {
  it('[13] a client that joins while a cell runs is notified, in the name of the kernel', async () => {
    using running = await attached();
    const id = running.execute('input("wait ")', { allow_stdin: true });
    await running.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    // The stdin question uses another socket and may arrive before this.
    await running.until(() => running.answers(id).some(message => isStatus(message, 'busy')));
    const own = running.messages.find(({ channel }) => channel === 'iopub')?.header.session;
    using late = await bridge.connect(kernelId);
    const [status] = [await late.first(() => true)];
    expect(isStatus(status, 'busy')).toBe(true);
    expect(status.header.session).toBe(own);
    expect(status.parent.msg_id).toBe(id);
    running.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await late.until(() => late.answers(id).some(message => isStatus(message, 'idle')));
  });

  it('[13] a client that joins an idle kernel is sent the idle status, and nothing else', async () => {
    using client = await bridge.connect(kernelId);
    // A cell that is sent immediately could run before the state is read.
    await client.first(() => true);
    const id = client.execute('1');
    await client.done(id);
    const [status, ...others] = client.messages.filter(({ parent }) => parent.msg_id !== id);
    expect(others).toEqual([]);
    expect(status).toMatchObject({ channel: 'iopub', content: { execution_state: 'idle' } });
    expect(status?.parent).toMatchObject({ msg_type: 'kernel_info_request' });
    expect(status?.header.session).toBe(client.answers(id)[0]?.header.session);
  });

  it('[12] a restart keeps the sockets, and the id of the kernel', async () => {
    using client = await attached();
    await client.run('kept = 1');
    const answer = await bridge.rest('POST', `/api/kernels/${kernelId}/restart`);
    expect(answer).toMatchObject({ status: 200, body: { id: kernelId } });
    const id = client.execute("print('kept' in globals())");
    await client.done(id);
    expect(client.printed(id)).toBe('False\n');
    expect(client.closed).toBeNull();
  });

  it('the kernel model contains the number of connections', async () => {
    const own = await bridge.startKernel();
    const count = async () =>
      ((await bridge.rest('GET', `/api/kernels/${own}`)).body as { connections: number }).connections;
    expect(await count()).toBe(0);
    using one = await bridge.connect(own);
    using two = await bridge.connect(own);
    await Promise.all([one.run('1'), two.run('1')]);
    expect(await count()).toBe(2);
    await bridge.rest('DELETE', `/api/kernels/${own}`);
    expect((await one.untilClosed()).code).toBe(1000);
    expect((await two.untilClosed()).code).toBe(1000);
  });
});

describe('liveness', () => {
  it('[12] a client that answers no ping is disconnected; a client that answers stays', async () => {
    // Both ends are in this process: the timeout leaves time for an answer even after the process stalled.
    const confirmation = { heartbeatMs: 500, silenceMs: 4_000 };
    await using strict = await TemporaryGateway.start({ confirmation });
    await strict.gateway.ready;
    const own = await strict.startKernel();
    using silent = await strict.connect(own);
    using talking = await strict.connect(own);
    silent.pause();
    const { registry } = strict.gateway;
    await vi.waitUntil(() => registry.get(own).connections === 1, { timeout: 60_000 });
    expect(types(await talking.run('1'))).toContain('shell:execute_reply');
    expect(talking.closed).toBeNull();
    silent.resume();
    expect((await silent.untilClosed()).code).toBe(1006);
  });

  it('[12] a gateway that stops closes with 1012, so that clients reconnect', async () => {
    await using stopping = await TemporaryGateway.start();
    await stopping.gateway.ready;
    using client = await stopping.connect(await stopping.startKernel());
    await client.run('1');
    using page = new EventsPage(stopping);
    await page.subscribe({ op: 'subscribe', topics: ['kernels'] });
    const pageClosed = once(page.socket, 'close') as Promise<[number]>;
    await stopping[Symbol.asyncDispose]();
    expect((await pageClosed)[0]).toBe(1012);
    // Kernels are removed first in this helper, and a removed kernel closes with 1000; see gateway-restart.spec.ts.
    expect([1000, 1012]).toContain((await client.untilClosed()).code);
  });
});
