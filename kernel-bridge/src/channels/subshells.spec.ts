import { existsSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ChannelsClient } from '../testing/channels-client.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { LEASES_FILE } from './kernel-channels.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let bridge: TemporaryGateway;
let kernelId: string;

beforeEach(async () => {
  bridge = await TemporaryGateway.start({ leases: { subshellMs: 200 } });
  await bridge.gateway.ready;
  kernelId = await bridge.startKernel();
});

afterEach(async () => bridge[Symbol.asyncDispose]());

/** A client that has received an answer on shell, as front ends do before they request subshells. */
async function connected(sessionId?: string): Promise<ChannelsClient> {
  const client = await bridge.connect(kernelId, sessionId === undefined ? {} : { sessionId });
  await client.run('pass');
  return client;
}

async function created(client: ChannelsClient): Promise<string> {
  const { content } = await client.request('control', 'create_subshell_request');
  expect(content).toMatchObject({ status: 'ok' });
  return content['subshell_id'] as string;
}

async function listed(client: ChannelsClient): Promise<string[]> {
  const { content } = await client.request('control', 'list_subshell_request');
  return content['subshell_id'] as string[];
}

/** Polls until the kernel has exactly these subshells. */
async function untilListed(client: ChannelsClient, ids: readonly string[]): Promise<void> {
  await vi.waitUntil(async () => JSON.stringify(await listed(client)) === JSON.stringify(ids), {
    timeout: 60_000
  });
}

describe('subshells of a real kernel', () => {
  it('[19] are created, listed, used while the main shell is busy, and deleted', async () => {
    using client = await connected();
    const id = await created(client);
    expect(await listed(client)).toEqual([id]);
    const main = client.execute('input("busy ")', { allow_stdin: true });
    await client.first(({ header }) => header.msg_type === 'input_request');
    const run = await client.request(
      'shell',
      'execute_request',
      { code: 'print("beside")', silent: false, store_history: false },
      { subshell_id: id }
    );
    expect(run.content).toMatchObject({ status: 'ok' });
    await client.until(() => client.printed(run.parent.msg_id ?? '') === 'beside\n');
    expect(client.answers(main).some(({ channel }) => channel === 'shell')).toBe(false);
    client.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await client.done(main);
    const deleted = await client.request('control', 'delete_subshell_request', { subshell_id: id });
    expect(deleted.content).toMatchObject({ status: 'ok' });
    expect(await listed(client)).toEqual([]);
  });

  it('[19] are deleted when the lease of their client ends, and others stay', async () => {
    using staying = await connected();
    const retained = await created(staying);
    const leaving = await connected();
    const lost = await created(leaving);
    expect((await listed(staying)).sort()).toEqual([retained, lost].sort());
    await leaving.abort();
    await untilListed(staying, [retained]);
  });

  it('[19] stay while their client is attached, and when it returns in time', async () => {
    await bridge[Symbol.asyncDispose]();
    bridge = await TemporaryGateway.start({ leases: { subshellMs: 3_600_000 } });
    await bridge.gateway.ready;
    kernelId = await bridge.startKernel();
    const before = await connected('sleeper');
    const id = await created(before);
    await before.abort();
    using again = await connected('sleeper');
    expect(await listed(again)).toEqual([id]);
  });

  it('[19] are forgotten when the kernel is restarted, so that no subshell of its successor is deleted', async () => {
    using client = await connected();
    await created(client);
    const file = path.join(bridge.gateway.registry.get(kernelId).directory, LEASES_FILE);
    expect(existsSync(file)).toBe(true);
    await bridge.rest('POST', `/api/kernels/${kernelId}/restart`);
    await client.run('pass');
    expect(existsSync(file)).toBe(false);
    expect(await listed(client)).toEqual([]);
  });
});
