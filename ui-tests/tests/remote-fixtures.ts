/** A Lab with a stand-in for a TPU VM, to which nothing is connected yet. */
import { StandInVm, type StandInVmOptions, unavailableReason } from '../../tests/stand-in-vm/index.js';
import type { LabServer } from '../lab/lab-server.js';
import { test as base, withLab } from './fixtures.js';

export interface RemoteFixtures {
  /** What kind of machine it is; specs with equal options share one. */
  readonly vmOptions: StandInVmOptions;
  readonly vm: StandInVm;
}

/** Null where stand-ins can run. */
export const why = unavailableReason();

export const test = base.extend<object, RemoteFixtures>({
  vmOptions: [{}, { scope: 'worker', option: true }],
  vm: [
    async ({ labOptions: _, vmOptions }, use) => {
      const vm = await StandInVm.start(vmOptions);
      await use(vm);
      await vm[Symbol.asyncDispose]();
    },
    { scope: 'worker', timeout: 420_000 }
  ],
  lab: [
    ({ vm, vmOptions }, use) =>
      withLab({ galata: true, env: { PATH: vm.laptop.path, HOME: vm.laptop.home } }, async lab => {
        // A VM with the bridge is registered as a remote; an empty VM is found in the dialog.
        if (vmOptions.bridge !== false) {
          const body = {
            name: 'vm',
            source: { kind: 'ssh', destination: 'vm' },
            install: false,
            connect: false
          };
          await request(lab, 'POST', 'bridge/v1/machines', body);
        }
        await use(lab);
      }),
    { scope: 'worker', timeout: 420_000 }
  ]
});

/** The bridge's REST API. */
export async function request(lab: LabServer, method: string, path: string, body?: object): Promise<unknown> {
  const { url, token } = await lab.reach();
  const response = await fetch(new URL(path, url), {
    method,
    headers: { Authorization: `token ${token}`, ...(body && { 'Content-Type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) })
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === '' ? null : JSON.parse(text);
}
