/** A machine of Google Cloud: whether it runs, and how ssh reaches its hosts. */
import type { GcloudSource as GcloudSourceSchema } from '@tpulab/protocol';
import type { Static } from '@sinclair/typebox';
import { RemoteProblem } from '../remote-error.js';
import type { SshTarget } from '../ssh/target.js';
import { parseDryRun } from './dry-run.js';
import type { Gcloud } from './gcloud.js';

export type GcloudSource = Static<typeof GcloudSourceSchema>;

/** States in which a machine can be reached, or will be without anybody doing anything. */
const RUNS = new Set(['READY', 'RUNNING', 'ACTIVE', 'REPAIRING', 'MAINTENANCE']);
const COMES = new Set([
  'CREATING',
  'PROVISIONING',
  'STAGING',
  'STARTING',
  'RESTARTING',
  'ACCEPTED',
  'WAITING_FOR_RESOURCES'
]);

export async function findMachine(
  gcloud: Gcloud,
  source: GcloudSource,
  signal: AbortSignal
): Promise<SshTarget[]> {
  const { product } = source;
  if (product === 'instance-group') return findGroup(gcloud, source, signal);
  const described = parseJson(
    await ask(gcloud, source, [...DESCRIBE[product], source.name, '--format=json'], signal)
  );
  checkState(source, product === 'queued-resource' ? at(described, 'state', 'state') : stateOf(described));
  return dryRun(gcloud, source, source.name, signal);
}

/** The command that makes the user's key known to the machine, as gcloud does at its first ssh. */
export function keyCommand(source: GcloudSource): string {
  const more = product(source) === 'compute' ? [] : ['--worker=0'];
  // The key becomes one of the project, so any instance of a group will do.
  const name =
    source.product === 'instance-group'
      ? `"$(gcloud ${LIST_GROUP} ${source.name} ${where(source).join(' ')} --format='value(instance.basename())' --limit=1)"`
      : source.name;
  const args = [...track(source), ...SSH[source.product], name, ...where(source), ...reach(source), ...more];
  return ['gcloud', ...args, '--command=true'].join(' ');
}

const LIST_GROUP = 'compute instance-groups managed list-instances';

/** Of the TPU commands only the alpha one of TPU VMs knows IAP. */
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

function where({ zone, project: project }: GcloudSource): string[] {
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
): Promise<SshTarget[]> {
  // Several workers at once are allowed with a command only, which a dry run does not run.
  const workers = product(source) === 'tpus' ? ['--worker=all', '--command=true'] : [];
  const args = [...track(source), ...SSH[source.product], name, ...reach(source), ...workers, '--dry-run'];
  const targets = parseDryRun(await ask(gcloud, source, args, signal));
  if (targets.length === 0) {
    throw new RemoteProblem(
      'gcloud_unreadable',
      `gcloud printed no ssh command for ${name}; try "${keyCommand(source)}" in a terminal, and connect with USER@HOST.`,
      { command: keyCommand(source) }
    );
  }
  return targets;
}

/** The instances of a group in the order of their names, which is that of their numbers. */
async function findGroup(gcloud: Gcloud, source: GcloudSource, signal: AbortSignal): Promise<SshTarget[]> {
  const listed = parseJson(
    await ask(
      gcloud,
      source,
      [...LIST_GROUP.split(' '), source.name, '--format=json(instance,instanceStatus)'],
      signal
    )
  );
  const instances = (Array.isArray(listed) ? listed : [])
    .map((one: unknown) => ({
      name: (at(one, 'instance') ?? '').split('/').at(-1) ?? '',
      state: at(one, 'instanceStatus')
    }))
    .filter(({ name }) => name !== '')
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
  if (instances.length === 0) {
    throw new RemoteProblem(
      'remote_machine_stopped',
      `The instance group ${source.name} has no instances; resize it, or wait until the queue gives it some.`
    );
  }
  for (const { name, state } of instances) checkState(source, state, name);
  const targets: SshTarget[] = [];
  for (const { name } of instances) targets.push(...(await dryRun(gcloud, source, name, signal)));
  return targets;
}

/** @param instance of a group */
function checkState(source: GcloudSource, state: string | null, instance?: string): void {
  const what = `${instance ?? source.name} in ${source.zone}`;
  if (state === null || RUNS.has(state)) return;
  if (state === 'PREEMPTED') {
    throw new RemoteProblem(
      'remote_preempted',
      `${what} was preempted. Its disk is gone; delete it and create another, then connect again. What its kernels printed is still here.`,
      {
        command: `gcloud compute tpus ${source.product === 'queued-resource' ? 'queued-resources' : 'tpu-vm'} delete ${source.name} ${where(source).join(' ')}`
      }
    );
  }
  if (COMES.has(state)) {
    throw new RemoteProblem(
      'remote_unreachable',
      `${what} is not there yet: its state is ${state}. It is looked for again.`
    );
  }
  throw new RemoteProblem(
    'remote_machine_stopped',
    `${what} does not run: its state is ${state}. Start it, or create another, then connect again.`,
    source.product === 'queued-resource' ? {} : { command: startCommand(source, instance) }
  );
}

function startCommand(source: GcloudSource, instance = ''): string {
  const start = {
    'tpu-vm': `tpus tpu-vm start ${source.name}`,
    'queued-resource': '',
    instance: `instances start ${source.name}`,
    'instance-group': `instance-groups managed start-instances ${source.name} --instances=${instance}`
  }[source.product];
  return `gcloud compute ${start} ${where(source).join(' ')}`;
}

/** TPU nodes have a `state`, instances a `status`; a spot instance that was taken back is only TERMINATED. */
function stateOf(described: unknown): string | null {
  return at(described, 'state') ?? at(described, 'status');
}

function ask(
  gcloud: Gcloud,
  source: GcloudSource,
  args: readonly string[],
  signal: AbortSignal
): Promise<string> {
  return gcloud.ask(
    [...args, ...where(source)],
    { project: source.project, zone: source.zone, product: source.product },
    signal
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RemoteProblem(
      'gcloud_unreadable',
      'gcloud did not print the JSON that was asked for; update it with "gcloud components update".',
      { cause, command: 'gcloud components update' }
    );
  }
}

function at(value: unknown, ...keys: readonly string[]): string | null {
  let found = value;
  for (const key of keys) found = (found as Record<string, unknown> | null | undefined)?.[key];
  return typeof found === 'string' ? found : null;
}
