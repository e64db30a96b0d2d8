import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { JournalReader } from '../journal/index.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';
import { readWatched } from './missed-cells.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });
const WAIT = { timeout: 60_000 };

let folder: string;
let bridge: TemporaryGateway;

const file = (name: string): string => path.join(folder, name);
const read = (name: string): string => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '');
const start = async (notifyAfterMs = 0): Promise<void> => {
  bridge = await TemporaryGateway.start({
    stateDir: file('state'),
    restartLimit: 0,
    notifyCommand: `echo "$TPULAB_NOTICE_KIND: $TPULAB_NOTICE_TEXT" >> '${file('notices')}'`,
    notifyAfterMs
  });
  await bridge.gateway.ready;
};
const watched = () => readWatched(file('state/watched-cells.json'));

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  await start();
});
afterEach(async () => {
  await bridge[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** Runs a cell that waits for the file `gate`. */
async function wait(then: string): Promise<string> {
  const { body } = await bridge.rest('POST', '/api/kernels', { body: { name: 'lossless' } });
  const { id } = body as { id: string };
  using client = await bridge.connect(id);
  client.execute(`import os, time
while not os.path.exists(${JSON.stringify(file('gate'))}): time.sleep(0.01)
${then}`);
  await vi.waitFor(
    async () =>
      expect(await watched()).toContainEqual(
        // `objectContaining({})` would match null, as Vitest compares the listed properties only.
        expect.objectContaining({
          kernelId: id,
          cell: expect.objectContaining({ msgId: expect.any(String) as unknown }) as unknown
        })
      ),
    WAIT
  );
  return id;
}

async function hasRecord(journalDir: string, from: number, pattern: RegExp): Promise<void> {
  for await (const { payload } of new JournalReader(journalDir).read(from))
    if (pattern.test(payload.toString())) return;
  throw new Error(`${journalDir} has no record of ${pattern}`);
}

it('reports cells and kernels that ended while no server ran, once', async () => {
  await wait('pass');
  await wait('1 / 0');
  await wait('os.kill(os.getpid(), 9)');
  await bridge.gateway[Symbol.asyncDispose]();
  await writeFile(file('gate'), '');
  for (const { journalDir, cell } of await watched())
    await vi.waitFor(() => hasRecord(journalDir, cell?.seq ?? 1, /"execute_reply"|"dead"/), WAIT);
  await start();
  await vi.waitFor(() => expect(read('notices').trimEnd().split('\n')).toHaveLength(3), WAIT);
  const [killed, failed, finished] = read('notices').trimEnd().split('\n').sort().reverse();
  expect(killed).toMatch(
    /^kernel_ended: Kernel lossless ended: .*SIGKILL.* \(while the server was down\)\.$/
  );
  expect(finished).toMatch(
    /^cell_failed: Cell \[1\] failed after \S+ .*\(while the server was down\): ZeroDivisionError: /
  );
  expect(failed).toMatch(/^cell_finished: Cell \[1\] finished after .* \(while the server was down\)\.$/);

  // The next server has nothing to add.
  await vi.waitFor(async () => expect((await watched()).map(({ cell }) => cell)).toEqual([null, null]), WAIT);
  await bridge.gateway[Symbol.asyncDispose]();
  await start();
  await vi.waitFor(() => expect(existsSync(file('state/watched-cells.json'))).toBe(true), WAIT);
  expect(read('notices').trimEnd().split('\n')).toHaveLength(3);
});

it('knows the duration of a cell that started before this server', async () => {
  await wait('pass');
  await bridge.gateway[Symbol.asyncDispose]();
  await start(60_000);
  await writeFile(file('gate'), '');
  // The cell ran for less than a minute, so it is not reported.
  await vi.waitFor(async () => expect((await watched()).map(({ cell }) => cell)).toEqual([null]), WAIT);
  expect(read('notices')).toBe('');
});

it('treats a torn file as missing', async () => {
  await writeFile(file('torn'), '[{"kernelId": "a"');
  await writeFile(file('odd'), '[{"kernelId": 1}, null]');
  expect([
    await readWatched(file('torn')),
    await readWatched(file('odd')),
    await readWatched(folder)
  ]).toEqual([[], [], []]);
});
