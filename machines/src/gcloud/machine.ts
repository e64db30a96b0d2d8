/** A machine of Google Cloud: checks its state, and determines how ssh reaches its hosts. */
import { type GcloudSource as GcloudSourceSchema, reachOf } from '@tpulab/protocol';
import type { Static } from '@sinclair/typebox';
import { RemoteProblem, RemoteQueued } from '../remote-error.js';
import { checkDestination, type SshTarget } from '../ssh/ssh-config.js';
import type { Gcloud } from './gcloud.js';
import { type GcloudTarget, withHostKeys } from './host-keys.js';

export type GcloudSource = Static<typeof GcloudSourceSchema>;

/** States in which a machine is reachable, or will be without help. */
const RUNS = new Set(['READY', 'RUNNING', 'ACTIVE', 'REPAIRING', 'MAINTENANCE']);
const STARTING_STATES = new Set([
  'CREATING',
  'PROVISIONING',
  'STAGING',
  'STARTING',
  'RESTARTING',
  'ACCEPTED',
  'WAITING_FOR_RESOURCES'
]);

/**
 * @param knownHosts file for the host keys that Google Cloud reports
 * @throws RemoteProblem; `RemoteQueued` for a machine that does not exist yet
 */
export async function findMachine(
  gcloud: Gcloud,
  source: GcloudSource,
  knownHosts: string,
  signal: AbortSignal
): Promise<SshTarget[]> {
  const { product, name } = source;
  if (product === 'instance-group') return findGroup(gcloud, source, signal);
  const describe = async (what: keyof typeof DESCRIBE, named: string): Promise<unknown> =>
    parseJson(await runGcloud(gcloud, source, [...DESCRIBE[what], named, '--format=json'], signal));
  const described = await describe(product, name);
  if (product === 'instance') {
    checkState(source, described);
    return (await dryRun(gcloud, source, name, signal)).map(plain);
  }
  const isQueued = product === 'queued-resource';
  if (isQueued) checkState(source, wasPreempted(described) ? { state: 'PREEMPTED' } : described);
  const nodeName = isQueued ? (nodeOf(described) ?? name) : name;
  const node = isQueued ? await describe('tpu-vm', nodeName) : described;
  checkState(source, node);
  checkAddress(source, node);
  const targets = await dryRun(gcloud, source, name, signal);
  return withHostKeys(targets, knownHosts, () =>
    runGcloud(
      gcloud,
      source,
      [...GUEST_ATTRIBUTES, nodeName, '--query-path=hostkeys/', '--format=json'],
      signal
    )
  );
}

const GUEST_ATTRIBUTES = ['compute', 'tpus', 'tpu-vm', 'get-guest-attributes'];

function plain({ destination, options }: GcloudTarget): SshTarget {
  return { destination, options };
}

/** A queued resource is suspended if Google took its node back, or if a person deleted the node. */
function wasPreempted(queued: unknown): boolean {
  const state = at(queued, 'state', 'state');
  const isSuspended = state === 'SUSPENDING' || state === 'SUSPENDED';
  return isSuspended && at(queued, 'state', 'stateInitiator') === 'SERVICE';
}

/** The first granted node of a queued resource; null for a name that gcloud would parse as an option. */
function nodeOf(described: unknown): string | null {
  const specs = (described as { tpu?: { nodeSpec?: unknown } } | null)?.tpu?.nodeSpec;
  const id = at(Array.isArray(specs) ? (specs as unknown[])[0] : null, 'nodeId');
  return id !== null && /^[a-z][a-z0-9-]*$/.test(id) ? id : null;
}

/** For a node without an external address gcloud prints the internal one, which works only inside its network. */
function checkAddress(source: GcloudSource, node: unknown): void {
  if (reachOf(source) !== 'external') return;
  const endpoints = (node as { networkEndpoints?: unknown } | null)?.networkEndpoints;
  const first: unknown = Array.isArray(endpoints) ? (endpoints as unknown[])[0] : undefined;
  if (first === undefined || at(first, 'accessConfig', 'externalIp') !== null) return;
  throw new RemoteProblem(
    'remote_no_address',
    `${source.name} has no external address, so ssh cannot reach it from here. Connect through Identity-Aware Proxy, or choose the internal address if this computer is in its network.`,
    { action: { label: 'Connect through IAP', connect: { reach: 'iap' } } }
  );
}

/** The command that adds the user's key to the machine, as gcloud does at its first ssh. */
export function keyCommand(source: GcloudSource): string {
  // The key becomes a project key, so any instance of a group will do.
  const name =
    source.product === 'instance-group'
      ? `"$(gcloud ${LIST_GROUP} ${source.name} ${where(source).join(' ')} --format='value(instance.basename())' --limit=1)"`
      : source.name;
  return ['gcloud', ...keyArguments(source, name)].join(' ');
}

function keyArguments(source: GcloudSource, name: string): string[] {
  const more = product(source) === 'compute' ? [] : ['--worker=0'];
  return [
    ...track(source),
    ...SSH[source.product],
    name,
    ...where(source),
    ...reach(source),
    ...more,
    '--command=true'
  ];
}

/**
 * Runs that command. gcloud adds the key before its own login, so a failed login does not matter.
 *
 * @throws RemoteProblem if Google Cloud refused
 */
export async function addKey(gcloud: Gcloud, source: GcloudSource, signal: AbortSignal): Promise<void> {
  const { name, project, zone, product } = source;
  try {
    await gcloud.change(keyArguments(source, name), { name, project, zone, product }, signal);
  } catch (error) {
    const isOfSsh = error instanceof RemoteProblem && /exited with return code \[255\]/.test(error.message);
    if (!isOfSsh) throw error;
  }
}

/** The rule that lets Identity-Aware Proxy reach ssh; Google uses the same address range for every project. */
export function iapRuleCommand({ project }: GcloudSource): string {
  return `gcloud compute firewall-rules create allow-ssh-from-iap --direction=INGRESS --action=allow --rules=tcp:22 --source-ranges=35.235.240.0/20${project === undefined ? '' : ` --project=${project}`}`;
}

const LIST_GROUP = 'compute instance-groups managed list-instances';

/** Of the TPU commands, only the alpha command of TPU VMs supports IAP. */
function track({ product, tunnelThroughIap }: GcloudSource): string[] {
  return product === 'tpu-vm' && tunnelThroughIap === true ? ['alpha'] : [];
}

const DESCRIBE = {
  'tpu-vm': ['compute', 'tpus', 'tpu-vm', 'describe'],
  'queued-resource': ['compute', 'tpus', 'queued-resources', 'describe'],
  instance: ['compute', 'instances', 'describe']
} as const;

const SSH = {
  'tpu-vm': ['compute', 'tpus', 'tpu-vm', 'ssh'],
  'queued-resource': ['compute', 'tpus', 'queued-resources', 'ssh'],
  instance: ['compute', 'ssh'],
  'instance-group': ['compute', 'ssh']
} as const;

function product(source: GcloudSource): 'tpus' | 'compute' {
  return source.product === 'tpu-vm' || source.product === 'queued-resource' ? 'tpus' : 'compute';
}

function where({ zone, project }: GcloudSource): string[] {
  return [`--zone=${zone}`, ...(project === undefined ? [] : [`--project=${project}`])];
}

function reach({ internalIp, tunnelThroughIap }: GcloudSource): string[] {
  return [
    ...(internalIp === true ? ['--internal-ip'] : []),
    ...(tunnelThroughIap === true ? ['--tunnel-through-iap'] : [])
  ];
}

async function dryRun(
  gcloud: Gcloud,
  source: GcloudSource,
  name: string,
  signal: AbortSignal
): Promise<GcloudTarget[]> {
  // Several workers at once require a command, which a dry run does not execute.
  const workers = product(source) === 'tpus' ? ['--worker=all', '--command=true'] : [];
  const args = [...track(source), ...SSH[source.product], name, ...reach(source), ...workers, '--dry-run'];
  const targets = parseDryRun(await runGcloud(gcloud, source, args, signal));
  if (targets.length === 0) {
    throw new RemoteProblem(
      'gcloud_unreadable',
      `gcloud printed no ssh command for ${name}; try "${keyCommand(source)}" in a terminal, and connect with USER@HOST.`,
      { command: keyCommand(source) }
    );
  }
  return targets;
}

/** The instances of a group sorted by name, which is also the order of their numbers. */
async function findGroup(gcloud: Gcloud, source: GcloudSource, signal: AbortSignal): Promise<SshTarget[]> {
  const listed = parseJson(
    await runGcloud(
      gcloud,
      source,
      [...LIST_GROUP.split(' '), source.name, '--format=json(instance,instanceStatus,currentAction)'],
      signal
    )
  );
  const instances = (Array.isArray(listed) ? listed : [])
    .map((one: unknown) => ({
      name: (at(one, 'instance') ?? '').split('/').at(-1) ?? '',
      state: at(one, 'instanceStatus'),
      action: at(one, 'currentAction')
    }))
    .filter(({ name }) => name !== '')
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  if (instances.length === 0) {
    throw new RemoteProblem(
      'remote_machine_stopped',
      `The instance group ${source.name} has no instances; resize it, or wait until the queue gives it some.`
    );
  }
  for (const instance of instances) checkInstance(source, instance);
  const targets: SshTarget[] = [];
  for (const { name } of instances) targets.push(...(await dryRun(gcloud, source, name, signal)).map(plain));
  return targets;
}

interface GroupInstance {
  readonly name: string;
  /** null: the group has no such instance at the moment. */
  readonly state: string | null;
  /** The group's current action on the instance. */
  readonly action: string | null;
}

/** For a group with a fixed size: the group replaces any stopped instance under the same name. */
function checkInstance(source: GcloudSource, { name, state, action }: GroupInstance): void {
  const isEnding = state !== null && /^(STOPPING|SUSPENDING|STOPPED|SUSPENDED|TERMINATED)$/.test(state);
  const isCreated =
    action !== null && /^(CREATING|CREATING_WITHOUT_RETRIES|RECREATING|STARTING)$/.test(action);
  if (isEnding && action === 'RECREATING') {
    throw new RemoteProblem(
      'remote_preempted',
      `${name} in ${source.zone} was preempted or has failed. Its disk was deleted. The group ${source.name} recreates it under its name, and TPULab connects as soon as it is ready. The output of its kernels is saved on this computer.`
    );
  }
  if (state === 'STOPPING' || state === 'TERMINATED') {
    // The group may not have noticed the stop yet. If a person stops an instance of a group, it becomes STOPPED or
    // SUSPENDED.
    throw new RemoteProblem(
      'remote_machine_stopped',
      `${name} in ${source.zone} has ended: its state is ${state}. If the group ${source.name} creates it again, TPULab connects; otherwise start it.`,
      { command: startCommand(source, name), recovery: 'again' }
    );
  }
  checkState(source, { state: isCreated && !STARTING_STATES.has(state ?? '') ? 'CREATING' : state }, name);
}

/**
 * @param described a queued resource, a node or an instance
 * @param instance its name, for an instance of a group
 */
function checkState(source: GcloudSource, described: unknown, instance?: string): void {
  const state = stateOf(described);
  const what = `${instance ?? source.name} in ${source.zone}`;
  if (state === null || RUNS.has(state)) return;
  if (state === 'PREEMPTED') {
    throw new RemoteProblem(
      'remote_preempted',
      `${what} was preempted. Its disk was deleted. Delete it and create another with the same name: TPULab connects as soon as it is ready. The output of its kernels is saved on this computer.`,
      {
        command: `gcloud compute tpus ${source.product === 'queued-resource' ? 'queued-resources' : 'tpu-vm'} delete ${source.name} ${where(source).join(' ')}`
      }
    );
  }
  if (STARTING_STATES.has(state)) {
    const created = Date.parse(at(described, 'createTime') ?? at(described, 'creationTimestamp') ?? '');
    throw new RemoteQueued(`${what} is not ready yet: Google Cloud says ${state}.`, {
      state,
      since: Number.isFinite(created) ? created : null
    });
  }
  throw new RemoteProblem(
    'remote_machine_stopped',
    `${what} is not running: its state is ${state}. Start it, or create another, then connect again.`,
    { command: startCommand(source, instance) }
  );
}

function startCommand(source: GcloudSource, instance = ''): string {
  const start = {
    'tpu-vm': `tpus tpu-vm start ${source.name}`,
    // A failed or suspended queued resource cannot be resumed; the person deletes and requests it again.
    'queued-resource': `tpus queued-resources delete ${source.name}`,
    instance: `instances start ${source.name}`,
    'instance-group': `instance-groups managed start-instances ${source.name} --instances=${instance}`
  }[source.product];
  return `gcloud compute ${start} ${where(source).join(' ')}`;
}

/** A queued resource has `state.state`, a node `state`, an instance `status`; a preempted spot instance is only TERMINATED. */
function stateOf(described: unknown): string | null {
  return at(described, 'state', 'state') ?? at(described, 'state') ?? at(described, 'status');
}

function runGcloud(
  gcloud: Gcloud,
  source: GcloudSource,
  args: readonly string[],
  signal: AbortSignal
): Promise<string> {
  return gcloud.query(
    [...args, ...where(source)],
    { name: source.name, project: source.project, zone: source.zone, product: source.product },
    signal
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RemoteProblem(
      'gcloud_unreadable',
      'gcloud did not print valid JSON; update it with "gcloud components update".',
      { cause, command: 'gcloud components update' }
    );
  }
}

function at(value: unknown, ...keys: readonly string[]): string | null {
  let found = value;
  for (const key of keys) found = (found as Record<string, unknown> | null | undefined)?.[key];
  return typeof found === 'string' ? found : null;
}

/** Parses the ssh command that gcloud prints. */

/** Options that name the host and its key. Others (`StrictHostKeyChecking=no`) are left to the user's own configuration. */
const HOST_OPTIONS = new Set([
  'hostkeyalias',
  'userknownhostsfile',
  'proxycommand',
  'proxyusefdpass',
  'identitiesonly',
  'certificatefile',
  'checkhostip',
  'hashknownhosts',
  'port',
  'user'
]);

/**
 * Parses the output of `gcloud … ssh --dry-run`, one target for each line with an ssh command: the host's address, its user
 * and key, and how its host key is verified. Our own ssh then uses the target.
 *
 * The TPU commands join the arguments with spaces and quote nothing (`tpus/tpu_vm/ssh.py`); `compute ssh` puts double
 * quotes around arguments with spaces and escapes nothing (`surface/compute/ssh.py`). So an argument ends where the next
 * flag begins, and the command of a proxy where `ProxyUseFdpass` does, which always follows it
 * (`command_lib/util/ssh/ssh.py`).
 */
export function parseDryRun(stdout: string): GcloudTarget[] {
  return stdout
    .split('\n')
    .map(line => line.trim())
    .filter(line => /^("[^"]*ssh"|\S*ssh)(\s|$)/.test(line))
    .map(parseLine);
}

const PROXY = / -o ("?)ProxyCommand[ =](.+?)\1(?= -o ProxyUseFdpass=)/i;

function parseLine(line: string): GcloudTarget {
  const proxy = PROXY.exec(line);
  const rest = (proxy === null ? line : line.replace(proxy[0], () => '')).replace(/ -- .*$/, '');
  const [, flags = '', destination = ''] = /^(?:"[^"]*"|\S+)((?: .*)?) (\S+)$/.exec(rest) ?? [];
  const options: string[] = [];
  let alias: string | null = null;
  let isKnown = false;
  for (const part of flags.split(/ "?-(?=[iop] |[iop]$)/).slice(1)) {
    const [flag, value] = [part.charAt(0), part.slice(1).replaceAll('"', '').trim()];
    if (value === '') throw unreadable(line);
    if (flag !== 'o') {
      options.push(`-${flag}`, value);
      continue;
    }
    const [, name = '', text = ''] = /^(\w+)[= ](.*)$/.exec(value) ?? [];
    if (/^StrictHostKeyChecking$/i.test(name)) isKnown = text === 'yes';
    if (/^HostKeyAlias$/i.test(name)) alias = text;
    if (HOST_OPTIONS.has(name.toLowerCase())) options.push('-o', `${name}=${quoted(text)}`);
  }
  if (proxy?.[2] !== undefined) options.push('-o', `ProxyCommand=${proxy[2]}`);
  if (destination === '' || destination.startsWith('-')) throw unreadable(line);
  return { destination: checkDestination(destination), options, alias, isKnown };
}

/** Quotes a value with spaces as ssh expects it. */
function quoted(value: string): string {
  return value.includes(' ') ? `"${value}"` : value;
}

function unreadable(line: string): RemoteProblem {
  return new RemoteProblem(
    'gcloud_unreadable',
    `gcloud printed an ssh command without a host: ${line.slice(0, 300)}`
  );
}
