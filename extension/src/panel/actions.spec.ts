import { expect, it, vi } from 'vitest';
import type { MachineSource } from '../devices/machine-source.js';
import { PageActions, type PageActionsOptions } from './actions.js';
/** Long enough for a busy machine. */
const WAIT = { timeout: 20_000 };

function scene(agrees: boolean, shutdown: () => Promise<void>) {
  const failures: string[] = [];
  const requests: string[] = [];
  const sessions = { running: () => [{ path: 'a.ipynb', kernel: { id: 'k' } }].values() };
  const kernels = { shutdown: vi.fn(shutdown) };
  const options: Partial<PageActionsOptions> = {
    sessions: sessions as unknown as PageActionsOptions['sessions'],
    kernels,
    confirm: title => {
      requests.push(title);
      return Promise.resolve(agrees);
    },
    showFailure: (title, why) => void failures.push(`${title}: ${why}`)
  };
  const actions = new PageActions(options as PageActionsOptions);
  const machine = { refresh: vi.fn(), removeLock: vi.fn(() => Promise.resolve<string | null>(null)) };
  return { actions, failures, requests, machine, shutdown: kernels.shutdown };
}

const source = (machine: object): MachineSource => machine as MachineSource;

it('releases chips when the user agrees, and checks the holders again', async () => {
  const { actions, requests, failures, machine, shutdown } = scene(true, () => Promise.resolve());
  actions.release('k', source(machine));
  await vi.waitFor(() => expect(machine.refresh).toHaveBeenCalledOnce(), WAIT);
  expect(requests).toEqual(['Release the chips from a.ipynb?']);
  expect(shutdown).toHaveBeenCalledExactlyOnceWith('k');
  expect(failures).toEqual([]);
});

it('leaves the kernel alone when the user does not agree', async () => {
  const { actions, requests, machine, shutdown } = scene(false, () => Promise.resolve());
  actions.release('other', source(machine));
  await vi.waitFor(() => expect(requests).toEqual(['Release the chips?']), WAIT);
  await new Promise(resolve => setTimeout(resolve));
  expect(shutdown).not.toHaveBeenCalled();
});

it('reports that the kernel cannot be shut down', async () => {
  const { actions, failures, machine } = scene(true, () =>
    Promise.reject(new Error('The bridge is unreachable.'))
  );
  actions.release('k', source(machine));
  await vi.waitFor(
    () => expect(failures).toEqual(['The kernel was not shut down: The bridge is unreachable.']),
    WAIT
  );
});

it('reports why a lock file stays, and nothing when it was removed', async () => {
  const { actions, failures, machine } = scene(true, () => Promise.resolve());
  actions.removeLock(source(machine));
  machine.removeLock.mockResolvedValue('It is held by process 7.');
  actions.removeLock(source(machine));
  await vi.waitFor(
    () => expect(failures).toEqual(['The lock file was not removed: It is held by process 7.']),
    WAIT
  );
});
