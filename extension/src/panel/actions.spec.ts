// @vitest-environment jsdom
import { nullTranslator } from '@jupyterlab/translation';
import { expect, it, vi } from 'vitest';
import type { MachineSource } from '../devices/machine-source.js';
import { PageActions, type PageActionsOptions } from './actions.js';

const trans = nullTranslator.load('jupyterlab_tpulab');
/** However busy the machine is. */
const WAIT = { timeout: 20_000 };

function scene(agrees: boolean, shutdown: () => Promise<void>) {
  const said: string[] = [];
  const asked: string[] = [];
  const sessions = { running: () => [{ path: 'a.ipynb', kernel: { id: 'k' } }].values() };
  const kernels = { shutdown: vi.fn(shutdown) };
  const options: Partial<PageActionsOptions> = {
    sessions: sessions as unknown as PageActionsOptions['sessions'],
    kernels,
    confirm: title => {
      asked.push(title);
      return Promise.resolve(agrees);
    },
    tellFailure: (title, why) => void said.push(`${title}: ${why}`),
    trans
  };
  const actions = new PageActions(options as PageActionsOptions);
  const machine = { refresh: vi.fn(), removeLock: vi.fn(() => Promise.resolve<string | null>(null)) };
  return { actions, said, asked, machine, shutdown: kernels.shutdown };
}

const source = (machine: object): MachineSource => machine as MachineSource;

it('releases chips when somebody agrees, and looks again who holds them', async () => {
  const { actions, asked, said, machine, shutdown } = scene(true, () => Promise.resolve());
  actions.release('k', source(machine));
  await vi.waitFor(() => expect(machine.refresh).toHaveBeenCalledOnce(), WAIT);
  expect(asked).toEqual(['Release the chips from a.ipynb?']);
  expect(shutdown).toHaveBeenCalledExactlyOnceWith('k');
  expect(said).toEqual([]);
});

it('leaves the kernel alone when somebody does not', async () => {
  const { actions, asked, machine, shutdown } = scene(false, () => Promise.resolve());
  actions.release('other', source(machine));
  await vi.waitFor(() => expect(asked).toEqual(['Release the chips?']), WAIT);
  await new Promise(resolve => setTimeout(resolve));
  expect(shutdown).not.toHaveBeenCalled();
});

it('says when the kernel cannot be shut down', async () => {
  const { actions, said, machine } = scene(true, () => Promise.reject(new Error('The bridge is away.')));
  actions.release('k', source(machine));
  await vi.waitFor(() => expect(said).toEqual(['The kernel was not shut down: The bridge is away.']), WAIT);
});

it('says why a lock file stays, and nothing when it is gone', async () => {
  const { actions, said, machine } = scene(true, () => Promise.resolve());
  actions.removeLock(source(machine));
  machine.removeLock.mockResolvedValue('It is held by process 7.');
  actions.removeLock(source(machine));
  await vi.waitFor(
    () => expect(said).toEqual(['The lock file was not removed: It is held by process 7.']),
    WAIT
  );
});
