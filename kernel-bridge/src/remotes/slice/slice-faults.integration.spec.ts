/**
 * Hosts of a slice that fail while a notebook runs detached: frozen, cut off, preempted, recreated. Each test takes minutes, so
 * the tests run on demand: `TPULAB_SLICE_FAULTS=1 npx vitest run --project integration slice-faults`.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommand as runNotebook } from '../../cli/run/run-command.js';
import { RunFile } from '../../cli/run/rerun.js';
import { type Ran, runCommand } from '../../cli/testing/command-line.js';
import { writeNotebook } from '../../cli/testing/notebook-file.js';
import { checkOf, SHARED, type SliceProduct, StandInSlice, sliceProblem } from './testing/stand-in-slice.js';

vi.setConfig({ testTimeout: 540_000, hookTimeout: 240_000 });

const why =
  process.env['TPULAB_SLICE_FAULTS'] === '1'
    ? sliceProblem()
    : 'TPULAB_SLICE_FAULTS=1 runs them, for minutes';
const WAIT = { timeout: 240_000, interval: 50 };
const IMPORTS = `import jax, numpy as np, time, tpulab
from jax.experimental import multihost_utils
def together(): multihost_utils.process_allgather(np.array([0])); time.sleep(0.02)`;
/** Each run trains five more steps, then waits with all hosts in a collective until one fails; it ends if it begins at `last`. */
const training = (last: number): string => `run = tpulab.run("counted", log="${SHARED}/log")
run.on_checkpoint(lambda step: f"after {step}", every=2)
start = run.restore(lambda checkpoint: print("loaded", checkpoint.saved))
for n in run.steps(range(start, ${last + 2})):
    together()
    if n == start + 5 and start < ${last}:
        print("ready", start, flush=True)
        while True: together()
print("ended", jax.process_count())`;

describe.skipIf(why !== null)(`a slice that loses hosts${why === null ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string;
  let slice: StandInSlice;

  beforeEach(async () => (folder = await mkdtemp(path.join(tmpdir(), 'tpl-'))));
  afterEach(async () => {
    await slice[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  async function connected(product: SliceProduct, hosts: number): Promise<void> {
    slice = await StandInSlice.start(product, hosts);
    const { hub, source } = slice;
    await hub.add({ source, install: true });
    await vi.waitFor(async () => expect((await slice.check())?.state, await hub.log()).toBe('ok'), WAIT);
    await hub.until('connected');
  }

  const run = (...args: string[]): Promise<Ran> =>
    runCommand(
      streams => runNotebook(streams, () => undefined, { awayPollMs: 500 }),
      ...args,
      ...['--on', 'vm', '--state-dir', slice.hub.bridge.folder]
    );

  /** The cell's result in the file: its text, or its error. */
  async function shown(file: string, at: number): Promise<string> {
    const { cells } = JSON.parse(await readFile(file, 'utf8')) as {
      cells: { outputs: { text?: string | string[]; evalue?: string }[] }[];
    };
    return cells[at]!.outputs.map(({ text, evalue }) => evalue ?? [text ?? ''].flat().join('')).join('');
  }

  async function losses(file: string): Promise<string[]> {
    const record = await new RunFile(slice.hub.bridge.folder, file, 'vm').read();
    return (record?.again?.losses ?? []).map(({ reason }) => reason);
  }

  const until = (what: () => Promise<string>, text: string): Promise<void> =>
    vi.waitFor(async () => expect(await what()).toContain(text), WAIT);

  it('runs a detached notebook again after a host froze and after one was cut off', async () => {
    await connected('tpu-vm', 4);
    const file = await writeNotebook(folder, 'training', [IMPORTS, training(8)]);
    expect((await run(file, '--detach')).error).toBeNull();
    const followed = run(file, '--attach', '--json');
    const printed = (): Promise<string> => shown(file, 1);
    await until(printed, 'ready 0');
    const namedMs: number[] = [];
    const lose = async (host: number, how: () => Promise<unknown>, reason: RegExp): Promise<void> => {
      await how();
      const since = performance.now();
      await vi.waitFor(
        async () => expect(await losses(file)).toContainEqual(expect.stringMatching(reason)),
        WAIT
      );
      namedMs.push(Math.round(performance.now() - since));
      expect(await losses(file)).toContainEqual(
        expect.stringContaining(`Host ${host} (${slice.vms[host]!.destination}) is lost`)
      );
    };
    await lose(
      3,
      () => slice.vms[3]!.machine.run('pkill -STOP -f tpulab.slice.[e]ngine'),
      /its process is stopped \(SIGSTOP\)$/
    );
    await until(printed, 'ready 4');
    await lose(
      2,
      () => slice.vms[2]!.network.cut(),
      /no sign of life for \d+ s: its machine froze or the network to it is cut$|the connection to it ended/
    );
    // After its restart, the run reports that this host cannot be reached, and retries until it can.
    await until(() => shown(file, 0), 'could not be reached');
    await slice.vms[2]!.network.restore();
    const { stdout, error } = await followed;
    expect(error, stdout).toBeNull();
    expect(await printed()).toMatch(/^loaded after 8\n.*\nended 4\n$/);
    expect(JSON.parse(stdout)).toMatchObject({ failure: null, restarts: [{}, {}] });
    process.stdout.write(`named after ${namedMs.join(' and ')} ms (frozen, cut off)\n`);
  });

  it.each(['queued-resource', 'instance-group'] as const)(
    'all workers (%s) are preempted and recreated under their names: set up again, and the notebook continues',
    async product => {
      await connected(product, 2);
      const { hub } = slice;
      const file = await writeNotebook(folder, 'training', [IMPORTS, training(4)]);
      expect((await run(file, '--detach')).error).toBeNull();
      const followed = run(file, '--attach', '--json');
      await until(() => shown(file, 1), 'ready 0');
      await slice.preempt();
      expect((await hub.until('preempted')).error).toMatchObject({ code: 'remote_preempted' });
      await slice.createAll(2);
      await vi.waitFor(
        async () =>
          expect(checkOf(await hub.remote())?.message, await hub.log()).toContain('was created again'),
        WAIT
      );
      const { stdout, error } = await followed;
      expect(error, await hub.log()).toBeNull();
      expect(await shown(file, 1)).toMatch(/^loaded after 4\n.*\nended 2\n$/);
      expect(JSON.parse(stdout)).toMatchObject({ restarts: [{}] });
    }
  );
});
