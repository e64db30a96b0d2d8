import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  computeDryRun,
  GCLOUD_EXPIRED,
  GCLOUD_FAILURES,
  GCLOUD_NO_ALPHA,
  GCLOUD_OFFLINE,
  hostKeyAttributes,
  IAP_NO_LOGIN,
  iapProxyCommand,
  iapRefusal,
  managedInstances,
  PROXY_CLOSED,
  QUEUED_RESOURCE_REFUSED,
  queuedResource,
  tpuDryRun,
  tpuNode
} from '../../../tests/stand-in-vm/gcloud.js';
import { sliceWarning, withCloudRemedy } from '../resolve-source.js';
import { explainSsh } from '../ssh/explain.js';
import { USER } from '../../../tests/stand-in-vm/accounts.js';
import { addKey, findMachine, type GcloudSource, keyCommand, parseDryRun } from './machine.js';
import { explainGcloud, type Gcloud, gcloudOnPath, withNames } from './gcloud.js';
import { projectMachines } from './project-machines.js';
import { RemoteProblem } from '../remote-error.js';

const PROXY = iapProxyCommand('t1v-n-0a1b2c3d-w-0', { alpha: true });
const REACHED = {
  user: USER,
  address: '192.0.2.7',
  key: `/home/${USER}/.ssh/google_compute_engine`,
  knownHosts: `/home/${USER}/.ssh/google_compute_known_hosts`,
  hostKeyAlias: 'tpu.4242424242-0-olHXhy'
};

const { signal } = new AbortController();

/** A gcloud that returns this answer to every query. */
function saying(answer: string): Gcloud {
  return { query: async () => answer, change: async () => undefined };
}

/** A gcloud whose answer depends on the words of the query. */
function answeringTo(answers: Readonly<Record<string, string>>): Gcloud & { readonly requests: string[] } {
  const requests: string[] = [];
  const query = async (args: readonly string[]): Promise<string> => {
    requests.push(args.join(' '));
    const found = Object.entries(answers).find(([words]) => args.join(' ').includes(words))?.[1];
    if (found === undefined) throw new RemoteProblem('gcloud_failed', 'gcloud says: no.');
    return found;
  };
  const change: Gcloud['change'] = async args => {
    await query(args);
  };
  return { requests, query, change };
}

describe('the dry run of gcloud', () => {
  it.each([
    ['of a TPU VM', tpuDryRun(REACHED), false],
    ['of a TPU VM through IAP', tpuDryRun({ ...REACHED, proxyCommand: PROXY }), true],
    ['of an instance', computeDryRun(REACHED), false],
    ['of an instance through IAP', computeDryRun({ ...REACHED, proxyCommand: PROXY }), true]
  ])("%s contains the host's address and how its key is verified", (_what, line, proxied) => {
    const [target, ...others] = parseDryRun(`Generating public/private rsa key pair.\n${line}`);
    expect(others).toEqual([]);
    expect(target!.destination).toBe('ana@192.0.2.7');
    expect(target!.alias).toBe(REACHED.hostKeyAlias);
    expect(target!.options).toContain(`HostKeyAlias=${REACHED.hostKeyAlias}`);
    expect(target!.options.slice(0, 2)).toEqual(['-i', REACHED.key]);
    expect(target!.options.filter(option => option.startsWith('ProxyCommand'))).toEqual(
      proxied ? [`ProxyCommand=${PROXY}`] : []
    );
    // The user's own configuration decides whether a key is trusted.
    expect(target!.options.join(' ')).not.toContain('StrictHostKeyChecking');
  });

  it.each([
    ['of a TPU VM', tpuDryRun],
    ['of an instance', computeDryRun]
  ])('%s is parsed even if the home folder has a space, which gcloud does not quote', (_what, print) => {
    const home = '/Users/ana maria/.ssh';
    const reached = { ...REACHED, key: `${home}/google_compute_engine`, knownHosts: `${home}/known` };
    for (const more of [{}, { proxyCommand: PROXY }]) {
      const [target] = parseDryRun(print({ ...reached, ...more }));
      expect(target!.destination).toBe('ana@192.0.2.7');
      expect(target!.options.slice(0, 2)).toEqual(['-i', reached.key]);
      expect(target!.options).toContain(`UserKnownHostsFile="${reached.knownHosts}"`);
    }
  });

  it('has a line for each worker, and states whose key gcloud knows', () => {
    const lines = [0, 1].map(worker =>
      tpuDryRun({ ...REACHED, address: `192.0.2.${worker}`, isKnown: worker === 1 })
    );
    expect(parseDryRun(lines.join('')).map(({ destination, isKnown }) => [destination, isKnown])).toEqual([
      ['ana@192.0.2.0', false],
      ['ana@192.0.2.1', true]
    ]);
  });

  it('is refused if it names no host, or an option as the host', () => {
    expect(() => parseDryRun('/usr/bin/ssh -t -i key\n')).toThrow(RemoteProblem);
    expect(() => parseDryRun('/usr/bin/ssh -t -i key -oProxyCommand=x\n')).toThrow(RemoteProblem);
    expect(parseDryRun('nothing of the kind\n')).toEqual([]);
  });
});

it('reads the whole list of a large project', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tpl-'));
  try {
    const program = path.join(folder, 'gcloud');
    await writeFile(program, '#!/bin/sh\nseq 5000\n', { mode: 0o755 });
    const answer = await gcloudOnPath(program).query(
      ['compute', 'instances', 'list'],
      { project: undefined, zone: undefined },
      new AbortController().signal
    );
    expect(answer.split('\n')).toHaveLength(5000);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

describe('a failure of gcloud', () => {
  it.each(Object.entries(GCLOUD_FAILURES))('%s', (code, stderr) => {
    const problem = explainGcloud(stderr, { project: 'p', zone: 'z' });
    expect(problem.code).toBe(code);
    expect(problem.message).toContain('gcloud says: ERROR:');
    expect(problem.message).not.toContain('\n');
  });

  it.each([...Object.values(GCLOUD_OFFLINE)])('an offline computer gets no advice to log in: %#', stderr => {
    expect(explainGcloud(stderr, { project: 'p', zone: 'z' })).toMatchObject({
      code: 'gcloud_offline',
      command: null,
      recovery: 'again'
    });
  });

  it.each([...Object.values(GCLOUD_EXPIRED)])('an expired login has to be repeated: %#', stderr => {
    expect(explainGcloud(stderr, { project: 'p', zone: 'z' })).toMatchObject({
      code: 'gcloud_login',
      command: 'gcloud auth login'
    });
  });

  it.each(Object.entries(GCLOUD_NO_ALPHA))(
    'missing alpha commands (%s) are reported as such',
    (_way, stderr) => {
      expect(explainGcloud(stderr, { project: 'p', zone: 'z' })).toMatchObject({
        code: 'gcloud_alpha_missing',
        command: 'gcloud components install alpha'
      });
    }
  );

  it("the command for an owner contains gcloud's configured account and project", async () => {
    const problem = explainGcloud(GCLOUD_FAILURES['gcloud_permission']!, { project: undefined, zone: 'z' });
    const commandWith = async (answers: Record<string, string>): Promise<string | null> =>
      ((await withNames(problem, answeringTo(answers), signal)) as RemoteProblem).command;
    const settings = { 'get-value account': 'ana@example.com\n', 'get-value project': 'p-1\n' };
    expect(await commandWith(settings)).toBe(
      'gcloud projects add-iam-policy-binding p-1 --member=user:ana@example.com --role=roles/tpu.admin'
    );
    const robot = { ...settings, 'get-value account': 'x@p.iam.gserviceaccount.com\n' };
    expect(await commandWith(robot)).toContain(' --member=serviceAccount:x@p.iam.gserviceaccount.com ');
    // Unknown or invalid names stay placeholders.
    expect(await commandWith({ 'get-value account': 'a; b\n' })).toBe(problem.command);
  });

  it('several hosts are reported as a slice, instances of a group as a possible one, and one host as none', () => {
    const output = (product: GcloudSource['product'], hosts: number): string | null =>
      sliceWarning({ kind: 'gcloud', product, name: 'x', zone: 'z' }, 'x', hosts);
    expect(output('tpu-vm', 2)).toContain('x is a slice of 2 hosts');
    expect(output('instance-group', 2)).toMatch(
      /a group of 2 instances.*If they form a slice, JAX there waits/
    );
    expect(output('queued-resource', 1)).toBeNull();
  });

  it('a lapsed permission is named, with the role that restores it', () => {
    const denied = explainGcloud(GCLOUD_FAILURES['gcloud_permission']!, { project: 'p', zone: 'z' });
    expect(denied.message).toContain("'tpu.nodes.get'");
    expect(denied.command).toBe(
      'gcloud projects add-iam-policy-binding p --member=user:YOUR_ADDRESS --role=roles/tpu.admin'
    );
  });

  it('a refusal in a thread of gcloud counts as one, even if gcloud exits with 0', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'tpl-gcloud-'));
    const program = path.join(folder, 'gcloud');
    const { stderr = '' } = QUEUED_RESOURCE_REFUSED;
    await writeFile(path.join(folder, 'said'), stderr);
    await writeFile(program, `#!/bin/sh\ncat '${folder}/said' >&2\n`, { mode: 0o755 });
    const requests = gcloudOnPath(program).query([], { project: 'p', zone: 'z' }, signal);
    await expect(requests).rejects.toMatchObject({ code: 'gcloud_not_found' });
    await rm(folder, { recursive: true });
  });

  it('names the API that has to be enabled', () => {
    const problem = explainGcloud(GCLOUD_FAILURES['gcloud_api_disabled']!, { project: 'p', zone: 'z' });
    expect(problem.command).toBe('gcloud services enable tpu.googleapis.com --project=p');
  });
});

describe('the command for a person', () => {
  const source = (product: GcloudSource['product'], more: Partial<GcloudSource> = {}): GcloudSource => ({
    kind: 'gcloud',
    product,
    name: 'my-tpu',
    zone: 'z',
    ...more
  });

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
    const found = findMachine(saying(answer), source(product), '/nowhere', signal);
    await expect(found).rejects.toMatchObject({ code: 'remote_machine_stopped', command });
  });

  it.each([
    ['tpu-vm', 'gcloud compute tpus tpu-vm list --zone=- --project=p'],
    ['queued-resource', 'gcloud compute tpus queued-resources list --zone=- --project=p'],
    ['instance', 'gcloud compute instances list --project=p'],
    ['instance-group', 'gcloud compute instance-groups managed list --project=p']
  ] as const)('to see which %ss there are', (product, command) => {
    const requested = { project: 'p', zone: 'wrong', product };
    expect(explainGcloud(GCLOUD_FAILURES['gcloud_not_found']!, requested).command).toBe(command);
  });
});

describe('a machine of Google Cloud', () => {
  const node: GcloudSource = { kind: 'gcloud', product: 'tpu-vm', name: 'my-tpu', zone: 'z', project: 'p' };
  const queue: GcloudSource = { ...node, product: 'queued-resource', name: 'queue' };
  let folder: string;
  beforeEach(async () => (folder = await mkdtemp(path.join(tmpdir(), 'tpl-gcloud-'))));
  afterEach(() => rm(folder, { recursive: true }));
  const find = (gcloud: Gcloud, source: GcloudSource) =>
    findMachine(gcloud, source, path.join(folder, 'known_hosts'), signal);

  it.each([
    ['tpu-vm', tpuNode({ state: 'CREATING', networkEndpoints: [] }), 'CREATING', '2026-11-20T10:00:00.123Z'],
    [
      'queued-resource',
      queuedResource('WAITING_FOR_RESOURCES'),
      'WAITING_FOR_RESOURCES',
      '2026-11-22T20:00:00Z'
    ]
  ] as const)('a %s that is still to come is waited for', async (product, answer, state, created) => {
    const found = find(saying(answer), { ...node, product });
    await expect(found).rejects.toMatchObject({
      code: 'remote_queued',
      queue: { state, since: Date.parse(created) }
    });
  });

  it('an active queued resource is checked by its node', async () => {
    const gcloud = answeringTo({
      'queued-resources describe queue': queuedResource('ACTIVE'),
      'tpu-vm describe my-tpu': tpuNode({ state: 'PREEMPTED' })
    });
    await expect(find(gcloud, queue)).rejects.toMatchObject({ code: 'remote_preempted' });
  });

  it.each([
    ['SERVICE', 'remote_preempted'],
    ['USER', 'remote_machine_stopped']
  ])('a queued resource suspended by %s', async (initiator, code) => {
    const gcloud = answeringTo({ describe: queuedResource('SUSPENDED', 'my-tpu', initiator) });
    await expect(find(gcloud, queue)).rejects.toMatchObject({ code });
  });

  it.each([
    ['TERMINATED', 'RECREATING', { code: 'remote_preempted' }],
    ['STOPPING', 'NONE', { code: 'remote_machine_stopped', recovery: 'again' }],
    [undefined, 'CREATING', { code: 'remote_queued' }],
    ['STAGING', 'RECREATING', { code: 'remote_queued' }],
    ['STOPPED', 'NONE', { code: 'remote_machine_stopped', recovery: 'person' }]
  ])(
    'an instance of a group that is %s, and the group does %s',
    async (instanceStatus, currentAction, expected) => {
      const listed = managedInstances([
        { instanceStatus: 'RUNNING', currentAction: 'NONE' },
        { ...(instanceStatus === undefined ? {} : { instanceStatus }), currentAction }
      ]);
      const group: GcloudSource = { ...node, product: 'instance-group', name: 'my-group' };
      await expect(find(saying(listed), group)).rejects.toMatchObject(expected);
    }
  );

  it('a node without an external address offers IAP, and gcloud is not queried for it again', async () => {
    const inside = {
      'describe my-tpu': tpuNode({ networkEndpoints: [{ ipAddress: '10.0.0.7', accessConfig: {} }] })
    };
    await expect(find(answeringTo(inside), node)).rejects.toMatchObject({
      code: 'remote_no_address',
      action: { connect: { reach: 'iap' } }
    });
    const throughIap = answeringTo({
      ...inside,
      '--dry-run': tpuDryRun({ ...REACHED, proxyCommand: PROXY })
    });
    const [target] = await find(throughIap, { ...node, tunnelThroughIap: true });
    expect(target!.options).toContain(`ProxyCommand=${PROXY}`);
    expect(throughIap.requests).toContainEqual(
      expect.stringMatching(/^alpha compute tpus tpu-vm ssh my-tpu --tunnel-through-iap /)
    );
  });

  const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8Ynb/eysFpcMSjt0KGI8r3L1P/8ddmE697oKolHXhy';
  const known = () => readFile(path.join(folder, 'known_hosts'), 'utf8').catch(() => '');

  it('gets the host key from its guest attributes, which are queried once', async () => {
    const gcloud = answeringTo({
      describe: tpuNode(),
      '--dry-run': tpuDryRun(REACHED),
      'get-guest-attributes my-tpu --query-path=hostkeys/': hostKeyAttributes(KEY)
    });
    for (let time = 0; time < 2; time++) {
      const [target] = await find(gcloud, node);
      expect(target!.options.filter(word => word.startsWith('UserKnownHostsFile'))).toEqual([
        `UserKnownHostsFile="${folder}/known_hosts"`
      ]);
      expect(target!.options).toContain('StrictHostKeyChecking=yes');
      expect(await known()).toBe(`${REACHED.hostKeyAlias} ${KEY}\n`);
    }
    expect(gcloud.requests.filter(words => words.includes('guest-attributes'))).toHaveLength(1);
  });

  it('recreated under its name has another key, and nobody is prompted', async () => {
    const hostKeyAlias = 'tpu.777-0-q2w3e4';
    const other = KEY.replace('HXhy', 'HXhz');
    for (const [alias, key] of [
      [REACHED.hostKeyAlias, KEY],
      [hostKeyAlias, other]
    ] as const) {
      const [target] = await find(
        answeringTo({
          describe: tpuNode(),
          '--dry-run': tpuDryRun({ ...REACHED, hostKeyAlias: alias }),
          'get-guest-attributes': hostKeyAttributes(key)
        }),
        node
      );
      expect(target!.options).toContain(`HostKeyAlias=${alias}`);
      expect(await known()).toBe(`${alias} ${key}\n`);
    }
  });

  it.each([
    ['that has none', '[]'],
    ['that tells what is no key', hostKeyAttributes('ssh-ed25519 nothing')],
    [
      'that tells a line of its own',
      JSON.stringify([{ namespace: 'hostkeys', key: 'x\n* ssh-rsa', value: KEY, worker_id: 0 }])
    ],
    ['that cannot be asked', undefined]
  ])('%s is left to the prompt of ssh', async (_what, attributes) => {
    const gcloud = answeringTo({
      describe: tpuNode(),
      '--dry-run': tpuDryRun(REACHED),
      ...(attributes === undefined ? {} : { 'get-guest-attributes': attributes })
    });
    const [target] = await find(gcloud, node);
    expect(target!.options).toContain(`UserKnownHostsFile=${REACHED.knownHosts}`);
    expect(await known()).toBe('');
  });

  describe('behind Identity-Aware Proxy', () => {
    const target = { destination: 'ana@10.0.0.7', options: ['-o', `ProxyCommand=${PROXY}`] };
    const explain = (output: string) =>
      withCloudRemedy(explainSsh(target, `${output}${PROXY_CLOSED}`.split('\n'), 255), node);
    const rule =
      'gcloud compute firewall-rules create allow-ssh-from-iap --direction=INGRESS --action=allow --rules=tcp:22 --source-ranges=35.235.240.0/20 --project=p';
    const grant =
      'gcloud projects add-iam-policy-binding p --member=user:YOUR_ADDRESS --role=roles/iap.tunnelResourceAccessor';

    it.each([
      [
        'no firewall rule',
        iapRefusal("4003: 'failed to connect to backend'", ' (Failed to connect to port 22)'),
        'remote_iap_blocked',
        rule
      ],
      [
        'no permission',
        iapRefusal('Handshake status 403 Forbidden', ' (May be due to missing permissions)'),
        'gcloud_permission',
        grant
      ],
      ['no permission for this machine', iapRefusal("4033: 'not authorized'"), 'gcloud_permission', grant],
      ['no running machine', iapRefusal("4047: 'Failed to lookup instance'"), 'remote_unreachable', null],
      ['no login', IAP_NO_LOGIN, 'gcloud_login', 'gcloud auth login'],
      ['no network', iapRefusal('[Errno -3] Temporary failure in name resolution'), 'gcloud_offline', null],
      ['nothing said by the tunnel', '', 'remote_unreachable', null]
    ])('%s is reported as the cause, and not "UNKNOWN port 65535"', (_what, output, code, command) => {
      expect(explain(output)).toMatchObject({ code, command });
    });
  });

  it('a host that does not know our key yet gets it from gcloud', async () => {
    const refused = new RemoteProblem('remote_auth_refused', 'It did not accept the key.');
    expect(withCloudRemedy(refused, node)).toMatchObject({
      code: 'remote_auth_refused',
      command: 'gcloud compute tpus tpu-vm ssh my-tpu --zone=z --project=p --worker=0 --command=true',
      action: { connect: { addKey: true } }
    });
    const gcloud = answeringTo({ 'tpu-vm ssh my-tpu --zone=z --project=p --worker=0 --command=true': '' });
    await addKey(gcloud, node, signal);
    expect(gcloud.requests).toHaveLength(1);
    // Its own ssh may fail to connect; the key is added nevertheless.
    const change = async (): Promise<void> => {
      throw new RemoteProblem(
        'gcloud_failed',
        'gcloud says: ERROR: [/usr/bin/ssh] exited with return code [255].'
      );
    };
    await addKey({ ...gcloud, change }, node, signal);
  });
});

describe('the machines of a project', () => {
  const answering = (answers: Record<string, string | RemoteProblem>): Gcloud => ({
    change: async () => undefined,
    query: async args => {
      const found = Object.entries(answers).find(([words]) => args.join(' ').includes(words))?.[1];
      if (found === undefined) throw new RemoteProblem('gcloud_failed', 'gcloud says: no.');
      if (typeof found === 'string') return found;
      throw found;
    }
  });

  it('are listed from both generations of the API, with type and state', async () => {
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

  it('are called spot if the cloud may end them at any time, by the field of each API', async () => {
    const node = (name: string, schedulingConfig: object): object => ({
      name: `projects/p/locations/z/nodes/${name}`,
      schedulingConfig
    });
    const vm = (name: string, scheduling: object): object => ({
      name,
      zone: 'https://x/zones/z',
      scheduling
    });
    const { machines } = await projectMachines(
      answering({
        'config get-value': 'p\n',
        'tpu-vm list': JSON.stringify([
          node('s', { spot: true }),
          node('p', { preemptible: true }),
          node('n', {})
        ]),
        'instances list': JSON.stringify([
          vm('si', { provisioningModel: 'SPOT' }),
          vm('ni', { provisioningModel: 'STANDARD' })
        ])
      }),
      signal
    );
    expect(machines.map(({ source, spot = false }) => [source.name, spot])).toEqual([
      ['s', true],
      ['p', true],
      ['n', false],
      ['si', true],
      ['ni', false]
    ]);
  });

  it('are listed from one API if the other is not enabled', async () => {
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

  it('are listed from the named project, whatever the configuration of gcloud', async () => {
    const requests: string[] = [];
    const gcloud: Gcloud = {
      change: async () => undefined,
      query: async args => {
        requests.push(args.join(' '));
        return '[]';
      }
    };
    expect(await projectMachines(gcloud, signal, 'other')).toMatchObject({ state: 'ok', project: 'other' });
    expect(requests).toHaveLength(2);
    expect(requests.every(words => words.endsWith('--project=other'))).toBe(true);
  });

  it('are unknown without gcloud', async () => {
    const missing = answering({ config: new RemoteProblem('gcloud_missing', 'There is no gcloud.') });
    expect(await projectMachines(missing, signal)).toMatchObject({ state: 'missing', machines: [] });
  });
});
