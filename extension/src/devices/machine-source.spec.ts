import { ServerConnection } from '@jupyterlab/services';
import type { DevicesPage, HoldersPage } from '@tpulab/protocol';
import { afterEach, expect, it, vi } from 'vitest';
import { machineSample } from '../events/samples.spec-data.js';
import { MachineSource } from './machine-source.js';
import { MachineTelemetry } from './machine-telemetry.js';

/** Long enough for a busy machine. */
const WAIT = { timeout: 20_000 };

const CHIP = {
  index: 0,
  pciAddress: '0000:00',
  pciDevice: '0x0063',
  name: 'v5e',
  node: '/dev/vfio/0',
  owners: []
};
const devices = (chips: DevicesPage['chips']): DevicesPage => ({
  accelerator: { type: null, workerId: null, processBounds: null, chipsPerProcessBounds: null },
  chips,
  specs: [],
  sample: machineSample(1).machine,
  runtime: { uptimeS: null, errors: null, distributions: [] },
  sampleHz: 2
});
const lock = (state: HoldersPage['lock']['state']): HoldersPage['lock'] => ({
  path: '/tmp/libtpu_lockfile',
  state,
  owner: 'ada',
  pids: []
});
const LEFT: HoldersPage = { chips: 1, holders: [], lock: lock('left') };

type Answers = Record<string, readonly [status: number, body: unknown]>;

let machine: MachineTelemetry;
let source: MachineSource;
let requested: string[];

/** A bridge that answers these requests, and no others. */
function bridge(answers: Answers): void {
  requested = [];
  machine = new MachineTelemetry('bridge');
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://bridge.test/',
    // Otherwise Lab adds the time to each address.
    init: { cache: 'default' },
    fetch: input => {
      const { method, url } = input as Request;
      const question = `${method} ${url.replace('http://bridge.test/bridge/v1/', '')}`;
      requested.push(question);
      const [status, body] = answers[question] ?? [404, { code: 'not_found', message: 'No such route.' }];
      return Promise.resolve(new Response(JSON.stringify(body), { status }));
    }
  });
  source = new MachineSource({ machine, settings: () => settings });
}

afterEach(() => {
  source.dispose();
  machine.dispose();
});

it('requests the holders if there are chips, and reports chips and holders together', async () => {
  bridge({ 'GET devices': [200, devices([CHIP])], 'GET devices/holders': [200, LEFT] });
  source.watch();
  await vi.waitFor(() => expect(machine.page).not.toBeNull(), WAIT);
  expect(machine.holders).toEqual(LEFT);
  expect(requested).toEqual(['GET devices', 'GET devices/holders']);
});

it('does not ask on a machine without chips', async () => {
  bridge({ 'GET devices': [200, devices([])] });
  source.watch();
  await vi.waitFor(() => expect(machine.page).not.toBeNull(), WAIT);
  expect(machine.holders).toBeNull();
  expect(requested).toEqual(['GET devices']);
});

it('has the chips of a bridge that does not report their holders', async () => {
  bridge({ 'GET devices': [200, devices([CHIP])] });
  source.watch();
  await vi.waitFor(() => expect(machine.page).not.toBeNull(), WAIT);
  expect(machine.page?.chips).toHaveLength(1);
  expect(machine.holders).toBeNull();
});

it('has the lock file removed, and checks again', async () => {
  bridge({
    'GET devices': [200, devices([CHIP])],
    'GET devices/holders': [200, LEFT],
    'DELETE devices/lock': [200, lock('none')]
  });
  source.watch();
  await vi.waitFor(() => expect(machine.page).not.toBeNull(), WAIT);
  expect(await source.removeLock()).toBeNull();
  await vi.waitFor(
    () => expect(requested.slice(2)).toEqual(['DELETE devices/lock', 'GET devices', 'GET devices/holders']),
    WAIT
  );
});

it.each<[string, Answers, string]>([
  [
    'as the bridge says it',
    { 'DELETE devices/lock': [409, { code: 'lock_not_removable', message: 'It is held by process 7.' }] },
    'It is held by process 7.'
  ],
  ['with its status', { 'DELETE devices/lock': [502, {}] }, 'The TPULab server answered with status 502.'],
  [
    'where the file is there still',
    { 'DELETE devices/lock': [200, lock('held')] },
    'The TPULab server did not report whether it removed the lock file; check whether it still exists.'
  ]
])('says why the lock file stays: %s', async (_, answers, why) => {
  bridge(answers);
  expect(await source.removeLock()).toBe(why);
});
