import { describe, expect, it } from 'vitest';
import { computeDryRun, GCLOUD_FAILURES, tpuDryRun } from '../../../../tests/stand-in-vm/gcloud.js';
import { USER } from '../../../../tests/stand-in-vm/accounts.js';
import { parseDryRun } from './dry-run.js';
import { explainGcloud } from './gcloud-problem.js';
import type { Gcloud } from './gcloud.js';
import { findMachine, type GcloudSource, keyCommand } from './machine.js';
import { projectMachines } from './project-machines.js';
import { RemoteProblem } from '../remote-error.js';

const PROXY =
  "'/usr/bin/python3' '-S' '/usr/lib/google-cloud-sdk/lib/gcloud.py' compute start-iap-tunnel 't1v-n-0' '%p' --listen-on-stdin --project=p --zone=us-east5-b --verbosity=warning";
const REACHED = {
  user: USER,
  address: '192.0.2.7',
  key: `/home/${USER}/.ssh/google_compute_engine`,
  knownHosts: `/home/${USER}/.ssh/google_compute_known_hosts`,
  hostKeyAlias: 'tpu.42-0'
};

describe('the dry run of gcloud', () => {
  it.each([
    ['of a TPU VM', tpuDryRun(REACHED), false],
    ['of a TPU VM through IAP', tpuDryRun({ ...REACHED, proxyCommand: PROXY }), true],
    ['of an instance', computeDryRun(REACHED), false],
    ['of an instance through IAP', computeDryRun({ ...REACHED, proxyCommand: PROXY }), true]
  ])('%s says where the host is and how its key is known', (_what, line, proxied) => {
    const [target, ...others] = parseDryRun(`Using ssh batch size of 1.\n${line}`);
    expect(others).toEqual([]);
    expect(target!.destination).toBe('ana@192.0.2.7');
    expect(target!.options).toContain('HostKeyAlias=tpu.42-0');
    expect(target!.options.slice(0, 2)).toEqual(['-i', REACHED.key]);
    expect(target!.options.filter(option => option.startsWith('ProxyCommand'))).toEqual(
      proxied ? [`ProxyCommand=${PROXY}`] : []
    );
    // Whether to trust a key is said by the user's own configuration.
    expect(target!.options.join(' ')).not.toContain('StrictHostKeyChecking');
  });

  it('has a line for each worker', () => {
    const lines = [0, 1].map(worker => tpuDryRun({ ...REACHED, address: `192.0.2.${worker}` }));
    expect(parseDryRun(lines.join('')).map(({ destination }) => destination)).toEqual([
      'ana@192.0.2.0',
      'ana@192.0.2.1'
    ]);
  });

  it('that names no host, or one that is an option, is refused', () => {
    expect(() => parseDryRun('/usr/bin/ssh -t -i key\n')).toThrow(RemoteProblem);
    expect(parseDryRun('nothing of the kind\n')).toEqual([]);
  });
});

describe('what gcloud says when it fails', () => {
  it.each(Object.entries(GCLOUD_FAILURES))('%s', (code, stderr) => {
    const problem = explainGcloud(stderr, { project: 'p', zone: 'z' });
    expect(problem.code).toBe(code);
    expect(problem.message).toContain('gcloud says: ERROR:');
  });

  it('names the API that is to be enabled', () => {
    const problem = explainGcloud(GCLOUD_FAILURES['gcloud_api_disabled']!, { project: 'p', zone: 'z' });
    expect(problem.command).toBe('gcloud services enable tpu.googleapis.com --project=p');
  });
});

describe('what a person is told to run', () => {
  const source = (product: GcloudSource['product'], more: Partial<GcloudSource> = {}): GcloudSource => ({
    kind: 'gcloud',
    product,
    name: 'my-tpu',
    zone: 'z',
    ...more
  });
  const { signal } = new AbortController();

  it.each([
    ['tpu-vm', {}, 'gcloud compute tpus tpu-vm ssh my-tpu --zone=z --worker=0 --command=true'],
    [
      'tpu-vm',
      { tunnelThroughIap: true },
      'gcloud alpha compute tpus tpu-vm ssh my-tpu --zone=z --tunnel-through-iap --worker=0 --command=true'
    ],
    ['instance', {}, 'gcloud compute ssh my-tpu --zone=z --command=true'],
    [
      'instance-group',
      { project: 'p' },
      `gcloud compute ssh "$(gcloud compute instance-groups managed list-instances my-tpu --zone=z --project=p --format='value(instance.basename())' --limit=1)" --zone=z --project=p --command=true`
    ]
  ] as const)('so that a %s %o knows the key', (product, more, command) => {
    expect(keyCommand(source(product, more))).toBe(command);
  });

  it.each([
    ['tpu-vm', '{"state": "STOPPED"}', 'gcloud compute tpus tpu-vm start my-tpu --zone=z'],
    ['instance', '{"status": "TERMINATED"}', 'gcloud compute instances start my-tpu --zone=z'],
    [
      'instance-group',
      '[{"instance": "https://x/instances/my-tpu-1", "instanceStatus": "STOPPED"}]',
      'gcloud compute instance-groups managed start-instances my-tpu --instances=my-tpu-1 --zone=z'
    ]
  ] as const)('so that a %s that was stopped runs', async (product, answer, command) => {
    const found = findMachine({ ask: async () => answer }, source(product), signal);
    await expect(found).rejects.toMatchObject({ code: 'remote_machine_stopped', command });
  });

  it.each([
    ['tpu-vm', 'gcloud compute tpus tpu-vm list --zone=- --project=p'],
    ['queued-resource', 'gcloud compute tpus queued-resources list --zone=- --project=p'],
    ['instance', 'gcloud compute instances list --project=p'],
    ['instance-group', 'gcloud compute instance-groups managed list --project=p']
  ] as const)('to see which %ss there are', (product, command) => {
    const asked = { project: 'p', zone: 'wrong', product };
    expect(explainGcloud(GCLOUD_FAILURES['gcloud_not_found']!, asked).command).toBe(command);
  });
});

describe('the machines of a project', () => {
  const answering = (answers: Record<string, string | RemoteProblem>): Gcloud => ({
    ask: async args => {
      const found = Object.entries(answers).find(([words]) => args.join(' ').includes(words))?.[1];
      if (found === undefined) throw new RemoteProblem('gcloud_failed', 'gcloud says: no.');
      if (typeof found === 'string') return found;
      throw found;
    }
  });
  const { signal } = new AbortController();

  it('are those of both generations of the API, with type and state', async () => {
    const found = await projectMachines(
      answering({
        'config get-value': 'p\n',
        'tpu-vm list':
          '[{"name": "projects/p/locations/us-east5-b/nodes/one", "acceleratorType": "v5litepod-8", "state": "READY"}]',
        'instances list':
          '[{"name": "two", "zone": "https://x/zones/us-east5-a", "machineType": "https://x/ct6e-standard-4t", "status": "TERMINATED", "selfLink": "https://x/projects/p/zones/z/instances/two"}]'
      }),
      signal
    );
    expect(found).toMatchObject({ state: 'ok', project: 'p' });
    expect(
      found.machines.map(({ source, acceleratorType, state }) => [
        source.name,
        source.product,
        acceleratorType,
        state
      ])
    ).toEqual([
      ['one', 'tpu-vm', 'v5litepod-8', 'READY'],
      ['two', 'instance', 'ct6e-standard-4t', 'TERMINATED']
    ]);
  });

  it('are those of one of them where the other is not enabled', async () => {
    const found = await projectMachines(
      answering({ 'config get-value': 'p\n', 'tpu-vm list': '[]' }),
      signal
    );
    expect(found.state).toBe('failed');
    expect(found.message).toContain('gcloud says');
    const half = answering({
      'config get-value': 'p\n',
      'tpu-vm list': '[{"name": "projects/p/locations/z/nodes/one", "state": "READY"}]'
    });
    expect(await projectMachines(half, signal)).toMatchObject({
      state: 'ok',
      machines: [{ state: 'READY' }]
    });
  });

  it('are those of the project that is named, whatever gcloud has been set to', async () => {
    const asked: string[] = [];
    const gcloud: Gcloud = {
      ask: async args => {
        asked.push(args.join(' '));
        return '[]';
      }
    };
    expect(await projectMachines(gcloud, signal, 'other')).toMatchObject({ state: 'ok', project: 'other' });
    expect(asked).toHaveLength(2);
    expect(asked.every(words => words.endsWith('--project=other'))).toBe(true);
  });

  it('are unknown without gcloud', async () => {
    const missing = answering({ config: new RemoteProblem('gcloud_missing', 'There is no gcloud.') });
    expect(await projectMachines(missing, signal)).toMatchObject({ state: 'missing', machines: [] });
  });
});
