/**
 * Runs every shipped notebook, unchanged and top to bottom, on a bare machine that was just connected: no file is copied to
 * it by hand. `npm run test:remote-notebooks` runs this; it downloads environments of up to 8 GB. `npm test` runs 00 and a
 * short 05 (ui-tests/tests/newcomer.spec.ts).
 */
import { copyFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StandInVm, unavailableReason } from '../../../tests/stand-in-vm/index.js';
import { checkCommand } from '../cli/check-command.js';
import { runCommand } from '../cli/run/run-command.js';
import { runCommand as runInThisProcess } from '../cli/testing/command-line.js';
import { createHostSetup } from '../../../machines/src/setup/host-setup.js';
import { makeBundle, UV } from '../../../machines/src/setup/testing/bundles.js';
import { Hub } from './testing/hub.js';

const NOTEBOOKS = fileURLToPath(new URL('../../../notebooks/', import.meta.url));
/** Names of notebooks to run, or `all`. */
const WANTED = process.env['TPULAB_REMOTE_NOTEBOOKS'] ?? '';
const SETUP_MS = 30 * 60_000;
const RUN_MS = 30 * 60_000;

vi.setConfig({ testTimeout: RUN_MS, hookTimeout: SETUP_MS });

const why = unavailableReason() ?? (WANTED === '' ? 'npm run test:remote-notebooks runs it' : null);

interface Cell {
  readonly cell_type: string;
  readonly source: string | string[];
  readonly execution_count?: number | null;
  readonly outputs?: readonly { readonly output_type: string }[];
}
interface Notebook {
  readonly cells: readonly Cell[];
  readonly metadata: { readonly kernelspec: { readonly name: string } };
}
const read = async (file: string): Promise<Notebook> => JSON.parse(await readFile(file, 'utf8')) as Notebook;
const sourceOf = ({ source }: Cell): string => [source].flat().join('');

/** The wanted notebooks, grouped by the environment of their kernelspec. */
async function byEnvironment(): Promise<Map<string, string[]>> {
  const wanted = WANTED.split(/[\s,]+/);
  const found = new Map<string, string[]>();
  for (const name of (await readdir(NOTEBOOKS)).filter(file => file.endsWith('.ipynb')).sort()) {
    if (!wanted.includes('all') && !wanted.includes(name)) continue;
    const { metadata } = await read(path.join(NOTEBOOKS, name));
    const environment = metadata.kernelspec.name.replace(/^tpulab-/, '');
    found.set(environment, [...(found.get(environment) ?? []), name]);
  }
  return found;
}

describe.skipIf(why !== null)(
  `a machine that was just connected${why === null ? '' : ` (${why})`}`,
  async () => {
    describe.each([...(await byEnvironment())])('with the environment %s', (environment, notebooks) => {
      let folder: string;
      let vm: StandInVm;
      let hub: Hub;

      beforeAll(async () => {
        folder = await mkdtemp(path.join(tmpdir(), 'tpl-notebooks-'));
        const payload = await makeBundle(path.join(folder, 'bundle'));
        vi.stubEnv('TPULAB_PAYLOAD', payload);
        vm = await StandInVm.start({ bridge: false, internet: true });
        const setup = createHostSetup({ payload, cache: path.join(folder, 'cache'), uv: UV });
        hub = await Hub.start(vm.laptop, { remotes: { setup } });
        await hub.add({ install: true, environment });
        await vi.waitFor(
          async () => {
            const { state, error } = await hub.remote();
            if (state === 'failed') throw new Error(JSON.stringify(error));
            expect(state).toBe('connected');
          },
          { timeout: SETUP_MS, interval: 500 }
        );
      });
      afterAll(async () => {
        vi.unstubAllEnvs();
        await hub[Symbol.asyncDispose]();
        await vm[Symbol.asyncDispose]();
        await rm(folder, { recursive: true, force: true, maxRetries: 5 });
      });

      it.runIf(environment === 'jax')('checks a notebook with the compiler that it installs', async () => {
        const file = path.join(folder, 'checked.ipynb');
        await copyFile(path.join(NOTEBOOKS, '00-getting-started.ipynb'), file);
        const { stdout, stderr, error } = await runInThisProcess(
          checkCommand,
          ...[file, '--chips', 'v5e-1', '--on', 'vm', '--state-dir', hub.bridge.folder]
        );
        expect(error?.message ?? null, stderr).toBeNull();
        expect(stdout, stderr).toMatch(/fits/);
      });

      it.each(notebooks)('runs %s', async name => {
        const file = path.join(folder, name);
        await copyFile(path.join(NOTEBOOKS, name), file);
        const { error } = await runInThisProcess(
          runCommand,
          ...[file, '--on', 'vm', '--json', '--state-dir', hub.bridge.folder]
        );
        expect(error?.message ?? null).toBeNull();
        const { cells } = await read(file);
        const code = cells.filter(cell => cell.cell_type === 'code' && sourceOf(cell).trim() !== '');
        expect(code.map(cell => cell.execution_count)).toEqual(code.map((_, at) => at + 1));
        expect(code.flatMap(({ outputs = [] }) => outputs).map(output => output.output_type)).not.toContain(
          'error'
        );
        // The notebook is as shipped: only outputs and counts were added.
        const shipped = await read(path.join(NOTEBOOKS, name));
        expect(cells.map(sourceOf)).toEqual(shipped.cells.map(sourceOf));
      });
    });
  }
);
