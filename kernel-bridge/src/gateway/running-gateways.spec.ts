import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { processStart } from '@tpulab/platform/process-identity.js';
import { enterGateway, registryFolder, runningGateways } from './running-gateways.js';
import { type GatewayRecord, writeGatewayRecord } from './state-folder.js';

let folder: string;
let registry: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-gateways-'));
  registry = path.join(folder, 'registry');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A gateway that this process serves. */
async function entered(
  gatewayId: string,
  startedAt: string,
  changes: Partial<GatewayRecord> = {}
): Promise<{ stateDir: string; entry: AsyncDisposable }> {
  const stateDir = path.join(folder, gatewayId);
  await mkdir(stateDir, { mode: 0o700 });
  const start = (await processStart(process.pid)) ?? undefined;
  const record = { url: 'http://127.0.0.1:1/', pid: process.pid, gatewayId, startedAt };
  await writeGatewayRecord(stateDir, { ...record, processStart: start, ...changes });
  return { stateDir, entry: await enterGateway(stateDir, gatewayId, registry) };
}

describe('the running gateways of a user', () => {
  it('are found, the newest first, until they are disposed of', async () => {
    const old = await entered('old', '2026-01-01T00:00:00.000Z');
    const young = await entered('young', '2026-01-02T00:00:00.000Z');
    expect((await runningGateways(registry)).map(({ stateDir }) => stateDir)).toEqual([
      young.stateDir,
      old.stateDir
    ]);
    await young.entry[Symbol.asyncDispose]();
    expect(await runningGateways(registry)).toMatchObject([{ stateDir: old.stateDir }]);
  });

  it.each([
    ['its pid belongs to another process now', { processStart: 'another/1' }],
    ['another gateway has its folder', { gatewayId: 'another' }]
  ])('do not include one if %s, and its file is removed', async (_, changes) => {
    await entered('one', '2026-01-01T00:00:00.000Z', changes);
    expect(await runningGateways(registry)).toEqual([]);
    expect(await readdir(registry)).toEqual([]);
  });

  it('do not include one if others could have written its folder or the list itself', async () => {
    const { stateDir } = await entered('one', '2026-01-01T00:00:00.000Z');
    await chmod(stateDir, 0o777);
    expect(await runningGateways(registry)).toEqual([]);
    await entered('two', '2026-01-01T00:00:00.000Z');
    await chmod(registry, 0o777);
    expect(await runningGateways(registry)).toEqual([]);
  });

  it('of another machine with the same home folder are neither used nor removed', async () => {
    const { stateDir } = await entered('far', '2026-01-01T00:00:00.000Z');
    const file = path.join(registry, 'far.json');
    await writeFile(file, JSON.stringify({ stateDir, host: 'another-machine' }));
    expect(await runningGateways(registry)).toEqual([]);
    expect(await readdir(registry)).toEqual(['far.json']);
  });

  it('are none if nothing has run yet, or if a file is damaged', async () => {
    expect(await runningGateways(registry)).toEqual([]);
    await mkdir(registry, { mode: 0o700 });
    await writeFile(path.join(registry, 'damaged.json'), '{', { mode: 0o600 });
    expect(await runningGateways(registry)).toEqual([]);
  });

  it('are listed in one place, wherever a gateway stores its state', () => {
    const env = { XDG_STATE_HOME: '/of/the/user', TPULAB_STATE_DIR: '/elsewhere' };
    expect(registryFolder(env)).toBe('/of/the/user/tpulab/gateways');
  });
});
