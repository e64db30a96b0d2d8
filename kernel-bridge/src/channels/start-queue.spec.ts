import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isStatus } from '../testing/channels-client.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { QUEUE_LIMITS, StartQueue } from './start-queue.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describe('requests for a kernel that is starting', () => {
  let bridge: TemporaryGateway;
  let gate: string;
  let kernelId: string;

  beforeEach(async () => {
    bridge = await TemporaryGateway.start({ queueLimits: { requests: 3, bytes: 100_000 } });
    await bridge.gateway.ready;
    gate = path.join(bridge.folder, 'gate');
    writeSlowSpec(bridge.folder, gate);
    kernelId = await bridge.startKernel({ name: 'slow' });
  });

  afterEach(async () => bridge[Symbol.asyncDispose]());

  it('[16] wait up to a limit of their number; more are refused with a reply that ends them at the client', async () => {
    using client = await bridge.connect(kernelId);
    const ids = Array.from({ length: 5 }, (_, n) => client.execute(`print(${n})`));
    for (const id of ids.slice(3)) {
      await client.done(id);
      const types = client.answers(id).map(({ channel, header }) => `${channel}:${header.msg_type}`);
      expect(types).toEqual(['iopub:error', 'shell:execute_reply', 'iopub:status']);
      const reply = client.answers(id).find(({ channel }) => channel === 'shell');
      expect(reply?.content).toMatchObject({ status: 'error', ename: 'requests_held' });
      expect(reply?.content['evalue']).toMatch(/still starting/);
    }
    writeFileSync(gate, '');
    for (const [n, id] of ids.slice(0, 3).entries()) {
      await client.done(id);
      expect(client.printed(id)).toBe(`${n}\n`);
    }
    const id = client.execute('print("later")');
    await client.done(id);
    expect(client.printed(id)).toBe('later\n');
    expect(client.answers(id).some(message => isStatus(message, 'busy'))).toBe(true);
  });

  it('[16] wait up to a limit of their size', async () => {
    using client = await bridge.connect(kernelId);
    const large = client.execute(`x = "${'y'.repeat(100_000)}"`);
    await client.done(large);
    expect(client.answers(large).find(({ channel }) => channel === 'shell')?.content).toMatchObject({
      ename: 'requests_held'
    });
    writeFileSync(gate, '');
    await client.run('pass');
  });
});

describe('queued requests', () => {
  it('[16] are bounded by default', () => {
    const held = new StartQueue(QUEUE_LIMITS);
    const taken = Array.from({ length: QUEUE_LIMITS.requests + 1 }, () => held.take(1, true));
    expect(taken.indexOf(false)).toBe(QUEUE_LIMITS.requests);
    held.release();
    expect(held.take(QUEUE_LIMITS.bytes, true)).toBe(true);
    expect(held.take(1, true)).toBe(false);
    expect(held.take(QUEUE_LIMITS.bytes + 1, false)).toBe(true);
  });
});

/** A kernel that starts once a file exists. */
function writeSlowSpec(folder: string, gateFile: string): void {
  const specs = path.join(folder, 'jupyter', 'kernels');
  const stock = JSON.parse(readFileSync(path.join(specs, 'python3', 'kernel.json'), 'utf8')) as {
    argv: [string, ...string[]];
  };
  const script = `while [ ! -e '${gateFile}' ]; do sleep 0.05; done; exec '${stock.argv[0]}' -m ipykernel_launcher -f "$0"`;
  const argv = ['/bin/sh', '-c', script, '{connection_file}'];
  mkdirSync(path.join(specs, 'slow'), { recursive: true });
  writeFileSync(
    path.join(specs, 'slow', 'kernel.json'),
    JSON.stringify({ argv, display_name: 'Slow', language: 'python' })
  );
}
