/** The machine loses power: all processes end together, and only the synced parts of files remain. */
import { mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { JournalReader, measureSegments } from '../journal/index.js';
import { kernelPaths } from '../keeper-protocol/keeper-file.js';
import { readEnded, SHUT_DOWN } from '../kernels/journal-folders.js';
import { followJournal } from '../remotes/mirror/remote-mirror.js';
import { MirroredJournal } from '../remotes/mirror/mirrored-journal.js';
import { RemoteGateway } from '../../../machines/src/remote-gateway.js';
import { FrameBudget } from '../remotes/mirror/stream-frames.js';
import { silent, TOKEN } from '../testing/temporary-gateway.js';
import { bridgeBuild } from './testing/bridge-build.js';
import { BridgeProcess } from './testing/bridge-process.js';
import { marksOf, numbersIn } from './testing/numbered-output.js';
import { printingPair, share, type Pair } from './testing/pair.js';
import { LOSSES, powerLoss, storedFiles, type StoredFile } from './testing/power-loss.js';
import { Scene } from './testing/scene.js';
import { record } from './testing/scoreboard.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

const isLinux = process.platform === 'linux';
/** Output of a kernel that is started with the lost kernel's id. */
const LATER = Array.from({ length: 500 }, (_, index) => 100_000 + index);

let scene: Scene;
let pair: Pair;
let other: string;
let files: StoredFile[];

function isSegment({ file }: StoredFile): boolean {
  return file.startsWith(`kernels/${scene.kernelId}/journal/`) && file.endsWith('.seg');
}

/** Syncs end at a record, so these bytes contain whole records. */
function syncedNumbers(found: readonly StoredFile[]): number[] {
  return found
    .filter(isSegment)
    .sort((a, b) => a.file.localeCompare(b.file))
    .flatMap(({ bytes, syncs }) => numbersIn(bytes.toString('latin1', 0, syncs.at(-1))));
}

beforeAll(async () => {
  if (!isLinux) return;
  scene = await Scene.start({ program: await bridgeBuild({ syncsNoted: true }) });
  // A second kernel that its user has ended, and that must not be ended twice.
  const { body } = await scene.bridge.rest('POST', 'api/kernels', { name: 'lossless' });
  other = (body as { id: string }).id;
  const { journal } = kernelPaths(path.join(scene.stateDir, 'kernels', other));
  await scene.until(async () => (await measureSegments(journal)).length > 0, 'its first words');
  expect(await scene.bridge.rest('DELETE', `api/kernels/${other}`)).toMatchObject({ status: 204 });
  pair = await printingPair(scene);
  await share(scene, pair, 0.5);
  await scene.remember();
  const { kernelPid, pid } = scene.keeper!;
  await Promise.all([scene.killGateway(), scene.kill(pid), scene.kill(kernelPid)]);
  // Clients may have received more than the disk has.
  for (const client of pair.all) await client.leave();
  files = await storedFiles(scene.stateDir);
});

afterAll(async () => {
  if (isLinux) await scene[Symbol.asyncDispose]();
});

/** A laptop that has mirrored a part of the journal, and has lost its power too. */
async function mirrorFrom(bridge: BridgeProcess, folder: string, loss: number): Promise<void> {
  const socketPath = path.join(folder, 'tunnel.sock');
  const server: Server = createServer(near => {
    const far = connect(bridge.port, '127.0.0.1');
    for (const socket of [near, far]) socket.on('error', () => [near, far].forEach(each => each.destroy()));
    near.pipe(far).pipe(near);
  });
  await new Promise<void>(resolve => server.listen(socketPath, resolve));
  const kernelDir = path.join(folder, 'mirror');
  using gateway = new RemoteGateway({ socketPath, token: TOKEN });
  const follow = async (): Promise<string> => {
    await using journal = await MirroredJournal.open(kernelDir);
    return await followJournal({
      gateway,
      kernelId: scene.kernelId,
      journal,
      signal: AbortSignal.timeout(60_000),
      budget: new FrameBudget(),
      mayRestart: () => true,
      log: silent(),
      onProgress: () => undefined
    });
  };
  try {
    expect(await follow()).toBe('ended');
    const { journalDir } = await MirroredJournal.open(kernelDir);
    const whole = await recordsIn(journalDir);
    const newest = path.join(
      journalDir,
      (await readdir(journalDir))
        .filter(name => name.endsWith('.seg'))
        .sort()
        .at(-1)!
    );
    const { length } = await readFile(newest);
    await truncate(newest, Math.floor(length * loss));
    if (loss > 0.5) await truncate(newest, length);
    await writeFile(path.join(kernelDir, 'ended.json'), '');
    expect(await follow()).toBe('ended');
    expect(await recordsIn(journalDir)).toEqual(whole);
    expect(await readEnded(kernelDir)).not.toBeNull();
  } finally {
    // Its open connections would last for half a minute, and keep the server running.
    gateway[Symbol.dispose]();
    await new Promise(resolve => server.close(resolve));
  }
}

async function recordsIn(journalDir: string): Promise<string[]> {
  const found: string[] = [];
  for await (const batch of new JournalReader(journalDir).readAcross(1, { ended: true })) {
    for (const { seq, missing, payload } of batch)
      found.push(missing ? `gap ${seq}` : `${seq} ${payload.toString('base64')}`);
  }
  return found;
}

/** Starts a kernel with the id of the lost one: its journal continues. */
async function continues(bridge: BridgeProcess): Promise<void> {
  const body = { name: 'lossless', kernel_id: scene.kernelId };
  expect(await bridge.rest('POST', 'api/kernels', body)).toMatchObject({ status: 201 });
  const { stock, ours } = pair;
  await stock.connect();
  stock.execute(`for n in range(${LATER[0]}, ${LATER.at(-1)! + 1}): print(f"#{n};", flush=True)`);
  // The client reconnects when the numbers after its last one already belong to other messages.
  await stock.until(() => stock.greatest >= LATER.at(-1)!, 'for what the next kernel printed');
  await ours.connect();
  for (const client of pair.all) {
    await client.until(() => client.greatest >= LATER.at(-1)!, 'for what the next kernel printed');
    expect(client.shown.filter(number => number >= LATER[0]!)).toEqual(LATER);
  }
}

describe.runIf(isLinux)('a machine that loses its power', () => {
  it.each(LOSSES)('retains everything that was synced, and continues: %s', async loss => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpp-'));
    const stateDir = path.join(folder, 's');
    await mkdir(stateDir);
    // Power failed during the last sync: clients have much output that the disk does not have.
    const found = files.map(each => (isSegment(each) ? { ...each, syncs: each.syncs.slice(0, -1) } : each));
    await powerLoss(found, loss, stateDir);
    const synced = syncedNumbers(found);
    expect(synced.length).toBeGreaterThan(0);
    const bridge = await BridgeProcess.start({ program: scene.program, stateDir });
    scene.bridge = bridge;
    try {
      // The kernel was lost with the machine; its output was not.
      expect(await bridge.rest('GET', 'api/kernels')).toEqual({ status: 200, body: [] });
      const outputs = await bridge.rest('GET', `bridge/v1/kernels/${scene.kernelId}/outputs`);
      const read = numbersIn(JSON.stringify(outputs.body));
      expect(marksOf(synced.length, read)).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });
      record({
        case: `power loss, ${loss}`,
        client: 'journal',
        ...marksOf(synced.length, read),
        replyFaults: 0,
        gap: 0,
        reported: [],
        cutOff: scene.printedCount - synced.length,
        catchUpMs: 0,
        note: 'clients learn that the kernel ended'
      });
      expect(await readEnded(path.join(stateDir, 'kernels', other))).toMatchObject({ reason: SHUT_DOWN });
      await mirrorFrom(bridge, folder, { cut: 0.4, zeros: 0.7, names: 0.05 }[loss]);

      if (loss === 'cut') await continues(bridge);
    } finally {
      await BridgeProcess.stopAll(scene.program, stateDir).catch(() => undefined);
      await bridge.end('SIGKILL');
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    }
  });
});
