/** What clients receive at a restart and when they attach: the same from the bridge as from a stock jupyter_server. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ChannelsClient, isStatus, type Message } from '../testing/channels-client.js';
import { JupyterServer } from '../testing/jupyter-server.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

let jupyter: JupyterServer;
let bridge: TemporaryGateway;

beforeAll(async () => {
  [jupyter, bridge] = await Promise.all([JupyterServer.start(), TemporaryGateway.start()]);
  await bridge.gateway.ready;
});

afterAll(async () => {
  await jupyter[Symbol.asyncDispose]();
  await bridge[Symbol.asyncDispose]();
});

async function request(url: string, method: string, target: string, body?: object): Promise<Response> {
  const response = await fetch(new URL(target, url), {
    method,
    headers: { authorization: `token ${TOKEN}` },
    ...(body && { body: JSON.stringify(body) })
  });
  expect(response.ok).toBe(true);
  return response;
}

/** A kernel of either server, with two clients that have received only one finished execution. */
async function onBoth<T>(
  check: (url: string, id: string, clients: readonly ChannelsClient[]) => Promise<T>
): Promise<T[]> {
  const results: T[] = [];
  for (const { url } of [jupyter, bridge]) {
    const { id } = (await (await request(url, 'POST', 'api/kernels', { name: 'lossless' })).json()) as {
      id: string;
    };
    const connect = (): Promise<ChannelsClient> =>
      ChannelsClient.connect({ url, token: TOKEN, kernelId: id });
    const clients = [await connect(), await connect()];
    // jupyter_server forwards a kernel's messages only after it has subscribed for a client, and answers it only then.
    for (const client of clients) await client.done(client.execute('1'));
    const cell = clients[0]!.execute('1');
    await clients[0]!.done(cell);
    for (const client of clients) await client.until(() => client.answers(cell).some(isIdle));
    try {
      results.push(await check(url, id, clients));
    } finally {
      for (const client of clients) client[Symbol.dispose]();
      await request(url, 'DELETE', `api/kernels/${id}`);
    }
  }
  return results;
}

/**
 * The messages as text. jupyter_server may query a kernel more than once, so repetitions are omitted, as are Python's
 * output and `iopub_welcome`, which every subscriber gets.
 */
function story(messages: readonly Message[]): string[] {
  const reported = messages.filter(({ header }) => !['stream', 'iopub_welcome'].includes(header.msg_type));
  const words = reported.map(({ channel, header, content, parent }) =>
    [
      channel,
      header.msg_type,
      header.msg_type === 'status' ? String(content['execution_state']) : JSON.stringify(content),
      `(${parent.msg_type ?? 'no parent'})`
    ].join(' ')
  );
  return [...new Set(words)];
}

const isPublished = (words: string): boolean => words.startsWith('iopub ');
const isIdle = (message: Message): boolean => isStatus(message, 'idle');
const isRequested = ({ parent }: Message): boolean => parent.msg_type === 'kernel_info_request';

/** Resolves when the kernel is idle, after its new process has reported its start. */
async function newProcess(client: ChannelsClient, from: number): Promise<Message[]> {
  return client.until(() => {
    const later = client.messages.slice(from);
    const startedAt = later.findIndex(message => isStatus(message, 'starting'));
    const isReady = later.slice(startedAt).some(message => isRequested(message) && isIdle(message));
    return startedAt >= 0 && isReady && later;
  });
}

/** jupyter_server's subscription may return only after the new process has sent all its startup messages. */
async function untilReceived(client: ChannelsClient, from: number): Promise<Message[]> {
  const later = (): Message[] => client.messages.slice(from);
  const isReceived = async (): Promise<boolean> => {
    await client.request('shell', 'kernel_info_request');
    return later().some(message => isRequested(message) && isIdle(message));
  };
  await vi.waitUntil(isReceived, { timeout: 60_000 });
  return later();
}

/**
 * Expects all messages in order, except those that a late subscription may have missed: the ones after the first `certain`
 * entries.
 */
function expectFromStock(received: readonly string[], expected: readonly string[], certain: number): void {
  expect(received.slice(0, certain)).toEqual(expected.slice(0, certain));
  expect(expected).toEqual(expect.arrayContaining([...received]));
}

describe('every client of a kernel', () => {
  it("[17] receives at an explicit restart the kernel's own reports of its end and its start", async () => {
    const [stock, ours] = await onBoth(async (url, id, clients) => {
      const from = clients.map(client => client.messages.length);
      await request(url, 'POST', `api/kernels/${id}/restart`);
      const receives = url === bridge.url ? newProcess : untilReceived;
      const received = await Promise.all(clients.map((client, at) => receives(client, from[at]!)));
      return received.map(story);
    });
    const expected = [
      'iopub status busy (shutdown_request)',
      'iopub shutdown_reply {"status":"ok","restart":true} (shutdown_request)',
      'iopub status idle (shutdown_request)',
      'iopub status starting (no parent)',
      'iopub status busy (kernel_info_request)',
      'iopub status idle (kernel_info_request)'
    ];
    expect(ours).toEqual([expected, expected]);
    for (const received of stock!) expectFromStock(received.filter(isPublished), expected, 3);
  });

  it('[17] receives `restarting` without a parent at the restart after a crash', async () => {
    const expected = ['iopub status restarting (no parent)', 'iopub status starting (no parent)'];
    const [stock, ours] = await onBoth(async (url, _id, clients) => {
      const from = clients.map(client => client.messages.length);
      clients[0]!.execute('import os, signal; os.kill(os.getpid(), signal.SIGKILL)');
      return Promise.all(
        clients.map(async (client, at) => {
          const words = (): string[] => story(client.messages.slice(from[at]));
          await client.until(() => words().includes(expected[url === bridge.url ? 1 : 0]!));
          if (url === jupyter.url) await untilReceived(client, from[at]!);
          return words().filter(word => expected.includes(word));
        })
      );
    });
    expect(ours).toEqual([expected, expected]);
    for (const received of stock!) expectFromStock(received, expected, 1);
  });
});

describe('a client that attaches', () => {
  it('[16] to an idle kernel receives its idle status unrequested, in the name of the kernel', async () => {
    const reported = await onBoth(async (url, id, [first]) => {
      const late = await ChannelsClient.connect({ url, token: TOKEN, kernelId: id });
      const idle = await late.first(message => isRequested(message) && isIdle(message));
      late[Symbol.dispose]();
      expect(idle.header.session).toBe(first!.messages.at(-1)!.header.session);
      return story([idle]);
    });
    expect(reported).toEqual([
      ['iopub status idle (kernel_info_request)'],
      ['iopub status idle (kernel_info_request)']
    ]);
  });
});
