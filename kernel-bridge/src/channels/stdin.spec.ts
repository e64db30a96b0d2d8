import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { ChannelsClient, Message } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();
let kernelId: string;

beforeAll(async () => {
  kernelId = await bridge.startKernel();
});

function requested(client: ChannelsClient, id: string): Promise<Message> {
  return client.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
}

function answer(client: ChannelsClient, value: string): void {
  client.send('stdin', 'input_reply', { value, status: 'ok' });
}

/** All bytes of the kernel's journal. */
function journal(): Buffer {
  const folder = bridge.gateway.registry.get(kernelId).journalDir;
  const segments = readdirSync(folder).filter(name => name.endsWith('.seg'));
  return Buffer.concat(segments.map(name => readFileSync(path.join(folder, name))));
}

describe('a question of a real kernel', () => {
  it('[18] is not sent when the request does not allow it', async () => {
    using client = await bridge.connect(kernelId);
    const id = client.execute('input("may I? ")', { allow_stdin: false });
    await client.done(id);
    const reply = client.answers(id).find(({ channel }) => channel === 'shell');
    expect(reply?.content).toMatchObject({ status: 'error', ename: 'StdinNotImplementedError' });
    expect(client.messages.filter(({ channel }) => channel === 'stdin')).toEqual([]);
  });

  it('[18] for a password reaches the kernel, and its answer no file', async () => {
    using client = await bridge.connect(kernelId);
    const id = client.execute('import getpass; print(len(getpass.getpass("secret: ")))', {
      allow_stdin: true
    });
    expect((await requested(client, id)).content).toMatchObject({ password: true });
    answer(client, 'correct horse battery staple');
    await client.done(id);
    expect(client.printed(id)).toBe('28\n');
    expect(journal().includes('secret: ')).toBe(true);
    expect(journal().includes('correct horse')).toBe(false);
    const plain = client.execute('print(input("name: "))', { allow_stdin: true });
    await requested(client, plain);
    answer(client, 'an ordinary answer');
    await client.done(plain);
    expect(journal().includes('"value":"an ordinary answer"')).toBe(true);
  });

  it('[18] is answered by the client that runs the cell, not by another while it is attached', async () => {
    using owner = await bridge.connect(kernelId);
    using other = await bridge.connect(kernelId);
    const id = owner.execute('print(input("who? "))', { allow_stdin: true });
    await requested(owner, id);
    answer(other, 'the wrong one');
    // This request travels behind its answer on the same socket: once it is answered, the gateway has seen both.
    await other.request('control', 'kernel_info_request');
    answer(owner, 'the right one');
    await owner.done(id);
    expect(owner.printed(id)).toBe('the right one\n');
    expect(journal().includes('the wrong one')).toBe(false);
  });

  it('[18] may be answered by another when the client that runs the cell is lost', async () => {
    const owner = await bridge.connect(kernelId);
    using other = await bridge.connect(kernelId);
    await other.run('pass');
    const id = owner.execute('print(input("anybody? "))', { allow_stdin: true });
    await requested(owner, id);
    await owner.abort();
    const { registry } = bridge.gateway;
    await vi.waitUntil(() => registry.get(kernelId).connections === 1, { timeout: 60_000 });
    answer(other, 'somebody');
    await other.until(() => other.printed(id) === 'somebody\n');
  });
});
