/**
 * Which messages a client gets twice if it does not know the bridge and does not drop repeated messages: none, wherever
 * possible.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ChannelsClient } from '../testing/channels-client.js';
import { ENTRY, GatewayProcess } from '../testing/gateway-process.js';
import { processStart } from '@tpulab/platform/process-identity.js';
import { TOKEN } from '../testing/temporary-gateway.js';
import { PositionStore } from '../journal/index.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let folder: string;
let stateDir: string;
let gateway: GatewayProcess;
let kernelId: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  stateDir = path.join(folder, 'state');
  gateway = await GatewayProcess.start(stateDir);
  const response = await fetch(new URL('api/kernels', gateway.url), {
    method: 'POST',
    headers: { authorization: `token ${TOKEN}` },
    body: JSON.stringify({ name: 'lossless' })
  });
  kernelId = ((await response.json()) as { id: string }).id;
});

afterEach(async () => {
  await promisify(execFile)(process.execPath, [ENTRY, 'stop', '--kernels', '--state-dir', stateDir]);
  // A keeper that is ending may still write.
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

function connect(): Promise<ChannelsClient> {
  return ChannelsClient.connect({ url: gateway.url, token: TOKEN, kernelId, sessionId: 'stock' });
}

const LINES = 3000;

/** Prints numbered lines, and waits at a third of them for the file `gate`. */
function counting(gate: string): string {
  return `
import os, time
for n in range(${LINES}):
    print(n, flush=True)
    while n == ${LINES / 3} and not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)
`;
}

const ALL = Array.from({ length: LINES }, (_, n) => `${n}\n`).join('');

function positionOf(): number {
  const file = path.join(stateDir, 'kernels', kernelId, 'positions');
  if (!existsSync(file)) return 0;
  const store = new PositionStore(file, () => undefined);
  const position = store.get('stock') ?? 0;
  store.close();
  return position;
}

/** The seq of the newest record, as the gateway reports it. */
async function newest(): Promise<number> {
  const response = await fetch(new URL(`bridge/v1/kernels/${kernelId}/journal?limit=10000`, gateway.url), {
    headers: { authorization: `token ${TOKEN}` }
  });
  const { entries } = (await response.json()) as { entries: { seq: number }[] };
  return entries.at(-1)?.seq ?? 0;
}

/** Simulates a power loss: the keeper ends, and its files lose their last thousands of bytes, with every trace of them. */
async function losePower(): Promise<void> {
  const kernelDir = path.join(stateDir, 'kernels', kernelId);
  const { pid } = JSON.parse(await readFile(path.join(kernelDir, 'keeper.json'), 'utf8')) as { pid: number };
  process.kill(pid, 'SIGKILL');
  await vi.waitUntil(async () => (await processStart(pid)) === null, { timeout: 60_000 });
  await rm(path.join(kernelDir, 'checkpoint.json'), { force: true });
  const journal = path.join(kernelDir, 'journal');
  const newestSegment = (await readdir(journal))
    .filter(file => file.endsWith('.seg'))
    .sort()
    .at(-1)!;
  const segment = path.join(journal, newestSegment);
  await truncate(segment, (await stat(segment)).size - 4_000);
}

describe('a stock client', () => {
  it('[22] gets nothing twice and misses nothing when the gateway is killed while the kernel is quiet', async () => {
    const gate = path.join(folder, 'gate');
    using before = await connect();
    const id = before.execute(counting(gate));
    await before.until(() => before.printed(id).endsWith(`\n${LINES / 3}\n`));
    const output = await newest();
    await vi.waitUntil(() => positionOf() >= output, { timeout: 60_000 });
    await gateway.end('SIGKILL');
    await before.untilClosed();
    await writeFile(gate, '');
    gateway = await GatewayProcess.start(stateDir, gateway.port);
    using again = await connect();
    await again.done(id);
    expect(before.printed(id) + again.printed(id)).toBe(ALL);
  });

  it('misses nothing when the journal has lost its end and other messages got the numbers', async () => {
    const [gate, ended] = ['gate', 'ended'].map(name => path.join(folder, name)) as [string, string];
    using before = await connect();
    const id = before.execute(`${counting(gate)}\nopen(${JSON.stringify(ended)}, "w").close()`);
    await before.until(() => before.printed(id).endsWith(`\n${LINES / 3}\n`));
    const output = await newest();
    await vi.waitUntil(() => positionOf() >= output, { timeout: 60_000 });
    await gateway.end('SIGKILL');
    await before.untilClosed();
    await losePower();
    await writeFile(gate, '');
    await vi.waitUntil(() => existsSync(ended), { timeout: 60_000 });
    gateway = await GatewayProcess.start(stateDir, gateway.port);
    // The client reconnects so late that the numbers beyond the cut are in use again.
    await vi.waitUntil(async () => (await newest()) > output + 100, { timeout: 60_000 });
    using again = await connect();
    await again.done(id);
    const printed = again.printed(id);
    expect(printed.endsWith(`\n${LINES - 1}\n`)).toBe(true);
    expect(Number(printed.split('\n', 1)[0])).toBeLessThanOrEqual(LINES / 3 + 1);
  });

  it('[22] gets nothing twice and misses nothing when the gateway is shut down cleanly in the middle of a flood', async () => {
    using before = await connect();
    const gate = path.join(folder, 'gate');
    const id = before.execute(counting(gate));
    await before.until(() => before.printed(id).length > 500);
    await gateway.end('SIGTERM');
    expect((await before.untilClosed()).code).toBe(1012);
    // Not earlier: otherwise everything could already be printed, and the end of the cell reported.
    await writeFile(gate, '');
    gateway = await GatewayProcess.start(stateDir, gateway.port);
    using again = await connect();
    await again.done(id);
    expect(before.printed(id) + again.printed(id)).toBe(ALL);
  });
});
