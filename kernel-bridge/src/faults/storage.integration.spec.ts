/** Faults of the journal's storage: full, read-only, cut, changed. */
import { execFileSync } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bridgeBuild } from './testing/bridge-build.js';
import { cutTail, flipBits, cutLastSegment } from './testing/damage.js';
import { waitingFor } from './testing/numbered-output.js';
import { COUNT, judge, type Pair, printingPair, share } from './testing/pair.js';
import { Scene } from './testing/scene.js';
import { faultEnds, IS_FULL, type Score, WHOLE } from './testing/scoreboard.js';
import { SmallDisk, smallDiskProblem } from './testing/small-disk.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let scene: Scene | null = null;
let disk: SmallDisk | null = null;

afterEach(async () => {
  await scene?.[Symbol.asyncDispose]();
  disk?.[Symbol.dispose]();
  scene = disk = null;
});

const noDisk = smallDiskProblem();

/** Expects that missing output is accounted for: the journal has counted it, and the client was notified. */
function expectExplained(row: Score): void {
  expect(row.reordered).toBe(0);
  if (row.lost === 0) return;
  expect(row.reported.length, `lost ${row.lost}, and nothing was said`).toBeGreaterThan(0);
  if (row.gap !== null) expect(row.gap).toBeGreaterThanOrEqual(row.lost);
}

/** The state of the journal in the kernel's model. */
async function atRisk({ bridge, kernelId }: Scene): Promise<string | undefined> {
  const { body } = await bridge.rest('GET', `api/kernels/${kernelId}`);
  return (body as { journal_fault?: string }).journal_fault;
}

/**
 * Resolves when the keeper has received all output of the cells: their end follows it, and is known even while nothing can
 * be written.
 */
function untilAdopted(on: Scene): Promise<void> {
  return on.until(async () => (await on.kernelModel()).execution_state === 'idle', 'the end of the cells');
}

/** Prints further numbers up to `count`: a client that has them has caught up. */
async function printOn(pair: Pair, count: number): Promise<Pair> {
  pair.stock.execute(`for n in range(${pair.count}, ${count}): print(f"#{n};", flush=True)`);
  for (const client of pair.all)
    await client.until(() => client.greatest === count - 1, 'for the last number');
  return { ...pair, count };
}

describe(`a disk that is full${noDisk === null ? '' : ` (skipped: ${noDisk})`}`, () => {
  it.skipIf(noDisk !== null)('and freed soon loses nothing', async () => {
    disk = SmallDisk.make(48);
    scene = await Scene.start({ stateDir: `${disk.folder}/s` });
    const filled = path.join(scene.folder, 'filled');
    const pair = await printingPair(scene, { at: waitingFor(filled, 0.35 * COUNT) });
    await share(scene, pair, 0.3);
    disk.fill();
    await writeFile(filled, '');
    await share(scene, pair, 0.7);
    await vi.waitUntil(async () => /the disk is full/.test((await atRisk(scene!)) ?? ''), {
      timeout: 60_000
    });
    disk.free();
    await vi.waitUntil(async () => (await atRisk(scene!)) === undefined, { timeout: 60_000 });
    for (const row of await judge(scene, pair, 'disk full, freed soon', faultEnds(scene))) {
      expect(row).toMatchObject({ ...WHOLE, gap: 0 });
    }
  });

  it.skipIf(noDisk !== null)(
    'for longer than the memory buffer lasts counts and reports missing messages',
    async () => {
      disk = SmallDisk.make(96);
      scene = await Scene.start({ stateDir: `${disk.folder}/s` });
      // 16 KB each: the 8 MiB limit is reached after about 500, most of them after the disk is full.
      const filled = path.join(scene.folder, 'filled');
      const pair = await printingPair(scene, {
        count: 1_350,
        perSecond: 1_000,
        padding: 16_000,
        at: waitingFor(filled, 300),
        toTheEnd: true
      });
      await scene.until(() => scene!.printedCount > 300, 'number 300');
      // From then on the kernel is known to be busy.
      await pair.ours.until(() => pair.ours.greatest >= 0, 'for numbers');
      disk.fill();
      await writeFile(filled, '');
      await untilAdopted(scene);
      disk.free();
      // Writing is retried twice per second; only then is there room for the following output.
      await pair.ours.until(() => pair.ours.gaps.length > 0, 'to be told of the gap');
      const ends = faultEnds(scene);
      const rows = await judge(scene, await printOn(pair, 1_500), 'disk full for long', ends);
      for (const row of rows) {
        expect(row.lost).toBeGreaterThan(0);
        expect(row).toMatchObject({ replyFaults: 0 });
        expect(row.doubled).toBe(0);
        expect(row.catchUpMs).not.toBeNull();
        expectExplained(row);
      }
    }
  );
});

describe(`a journal folder${noDisk === null ? '' : ` (skipped: ${noDisk})`}`, () => {
  it.skipIf(noDisk !== null || !IS_FULL).each([
    ['that becomes read-only', /failed with EPERM/],
    ['of a disk that has no room for more files', /no room for more files \(inodes\).*remove files/]
  ])('%s when the next segment is due counts missing messages, and reports them', async (what, fault) => {
    disk = SmallDisk.make(256, 1_000);
    scene = await Scene.start({ stateDir: `${disk.folder}/s` });
    const pair = await printingPair(scene, {
      count: 1_700,
      perSecond: 400,
      padding: 48_000,
      toTheEnd: true
    });
    await share(scene, pair, 0.2);
    await pair.ours.until(() => pair.ours.greatest >= 0, 'for numbers');
    const isFull = what.startsWith('of a disk');
    // Root ignores permissions, but not this attribute.
    if (isFull) disk.fillFiles();
    else execFileSync('chattr', ['+i', scene.journalDir]);
    await untilAdopted(scene);
    expect(await atRisk(scene)).toMatch(fault);
    if (isFull) disk.free();
    else execFileSync('chattr', ['-i', scene.journalDir]);
    await pair.ours.until(() => pair.ours.gaps.length > 0, 'to be told of the gap');
    const ends = faultEnds(scene);
    const rows = await judge(scene, await printOn(pair, 1_800), `journal folder ${what}`, ends);
    for (const row of rows) {
      expect(row.doubled).toBe(0);
      expectExplained(row);
    }
  });
});

const CODES = ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE'];

describe.runIf(process.platform === 'linux')('a disk that refuses every write of gateway and keeper', () => {
  it(`with ${CODES.join(', ')}: no process ends, data at risk is reported, and all of it is written afterwards`, async () => {
    scene = await Scene.start({ program: await bridgeBuild({ refusing: true }) });
    const { folder, bridge, kernelId } = scene;
    const refusal = path.join(folder, 'refusal');
    const turns = CODES.map((code, turn) => ({
      code,
      gate: path.join(folder, `gate-${code}`),
      from: Math.floor((COUNT * (turn + 1)) / (CODES.length + 1))
    }));
    const pair = await printingPair(scene, { at: turns.map(({ gate, from }) => waitingFor(gate, from)) });
    const processes = [bridge.pid, scene.keeper?.pid];
    for (const { code, gate, from } of turns) {
      await scene.until(() => scene!.printedCount > from, `number ${from}`);
      await writeFile(refusal, code);
      const kernel = { id: kernelId };
      const session = await bridge.rest('POST', 'api/sessions', { path: code, type: 'notebook', kernel });
      expect(session).toMatchObject({ status: 201 });
      await writeFile(gate, '');
      await vi.waitUntil(async () => (await atRisk(scene!))?.includes(code), { timeout: 60_000 });
      const outputs = await bridge.rest('GET', `bridge/v1/kernels/${kernelId}/outputs`);
      expect(outputs).toMatchObject({ status: 200 });
      await rm(refusal);
      await vi.waitUntil(async () => (await atRisk(scene!)) === undefined, { timeout: 60_000 });
    }
    for (const row of await judge(scene, pair, 'disk refuses', faultEnds(scene))) {
      expect(row).toMatchObject({ ...WHOLE, gap: 0 });
    }
    expect([bridge.pid, scene.keeper?.pid]).toEqual(processes);
    expect(bridge.isRunning).toBe(true);
    for (const client of pair.all)
      expect(await readFile(path.join(scene.kernelDir, 'positions'), 'utf8')).toContain(client.session);
    // The next gateway has the positions confirmed meanwhile.
    await scene.killGateway();
    await scene.startGateway();
    const { body } = await scene.bridge.rest('GET', 'api/sessions');
    expect((body as { path: string }[]).map(each => each.path)).toEqual(CODES);
  });
});

describe.runIf(process.platform === 'linux')('a disk that accepts every write and syncs none', () => {
  it('is reported until the unsynced records are written again, into another segment', async () => {
    scene = await Scene.start({ program: await bridgeBuild({ refusing: true }) });
    const { folder, journalDir } = scene;
    const refusal = path.join(folder, 'refusal');
    const gate = path.join(folder, 'gate');
    const pair = await printingPair(scene, { at: waitingFor(gate, 0.5 * COUNT) });
    await share(scene, pair, 0.4);
    const segments = async (): Promise<number> =>
      (await readdir(journalDir)).filter(name => name.endsWith('.seg')).length;
    const before = await segments();
    const keeper = scene.keeper?.pid;
    await writeFile(refusal, 'EIO sync');
    await writeFile(gate, '');
    await vi.waitUntil(async () => (await atRisk(scene!))?.includes('EIO'), { timeout: 60_000 });
    // A client that is attached meanwhile gets everything.
    await share(scene, pair, 0.9);
    expect(await atRisk(scene)).toContain('EIO');
    await rm(refusal);
    await vi.waitUntil(async () => (await atRisk(scene!)) === undefined, { timeout: 60_000 });
    expect(await segments()).toBeGreaterThan(before);
    for (const row of await judge(scene, pair, 'syncs fail', faultEnds(scene)))
      expect(row).toMatchObject({ ...WHOLE, gap: 0 });
    expect(scene.keeper?.pid).toBe(keeper);
  });
});

describe('a journal that was damaged while no process wrote to it', () => {
  const damages = [
    { name: 'segment cut at any byte', damage: cutTail, turns: IS_FULL ? 4 : 1 },
    { name: 'segment with flipped bits', damage: flipBits, turns: IS_FULL ? 4 : 1 }
  ];
  it.each(damages)('$name: continues, and the loss is reported', async ({ name, damage, turns }) => {
    for (let turn = 0; turn < turns; turn++) {
      scene = await Scene.start();
      const gate = path.join(scene.folder, 'gate');
      // The cell must not end before the damage: the kernel cannot resend output or replies that it has dropped.
      const pair = await printingPair(scene, { at: waitingFor(gate, 0.9 * COUNT) });
      await share(scene, pair, 0.3);
      await scene.stopGateway();
      await scene.killKeeper();
      const answered = pair.stock.replies.length;
      await damage(scene.journalDir, turn + 1);
      const isCut = damage === cutTail || (await cutLastSegment(scene.journalDir));
      await writeFile(gate, '');
      await share(scene, pair, 0.6);
      await scene.startGateway();
      const rows = await judge(scene, pair, turns === 1 ? name : `${name}, ${turn + 1}`, faultEnds(scene));
      const [stock, ours] = rows;
      // A client that cannot name its position may get output twice that was cut off and resent by the kernel.
      if (!isCut) expect(stock.doubled).toBe(0);
      expect(ours.doubled).toBe(0);
      for (const row of rows) expectExplained(row);
      for (const client of pair.all) {
        const replies = client.replyMarks();
        expect({ client: client.kind, ...replies }).toMatchObject({ lost: 0, reordered: 0 });
        // A reply may repeat too, but only one that arrived before the cut.
        const mayRepeat = isCut && client === pair.stock ? answered : 0;
        expect(replies.doubled).toBeLessThanOrEqual(mayRepeat);
      }
      await scene[Symbol.asyncDispose]();
      scene = null;
    }
  });
});
