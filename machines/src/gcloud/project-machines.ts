/** The machines with TPUs in a project, from both generations of the API. */
import type { RemoteCandidates } from '@tpulab/protocol';
import { remoteErrorOf, RemoteProblem } from '../remote-error.js';
import { type Gcloud, gcloudSetting, LISTS } from './gcloud.js';
import type { GcloudSource } from './machine.js';
import { bridgeError } from '@tpulab/platform/errors.js';

type Found = RemoteCandidates['gcloud'];
type Machine = Found['machines'][number];

/** `wanted` is the project; if omitted, gcloud's configured one. */
export async function projectMachines(gcloud: Gcloud, signal: AbortSignal, wanted?: string): Promise<Found> {
  let project = wanted ?? null;
  try {
    project ??= await ownProject(gcloud, signal);
    const request = { project, zone: undefined };
    const list = async (args: readonly string[]): Promise<readonly Item[]> =>
      items(await gcloud.query([...args, '--format=json', `--project=${project}`], request, signal));
    const parts = await Promise.allSettled([
      list(['compute', 'tpus', 'tpu-vm', 'list', '--zone=-']).then(all => all.flatMap(tpuVm)),
      list(['compute', 'instances', 'list', '--filter=machineType~/(ct|tpu)[0-9]']).then(all =>
        all.flatMap(instance)
      )
    ]);
    const machines = parts.flatMap(part => (part.status === 'fulfilled' ? part.value : []));
    const failed = parts.find(part => part.status === 'rejected');
    // A project may use only one of the two APIs and disable the other.
    if (failed && machines.length === 0) throw failed.reason;
    return { state: 'ok', message: null, remedy: null, project, machines };
  } catch (error) {
    const { code, message, command } = remoteErrorOf(error);
    return {
      state: code === 'gcloud_missing' ? 'missing' : 'failed',
      message,
      remedy: command,
      project,
      machines: []
    };
  }
}

async function ownProject(gcloud: Gcloud, signal: AbortSignal): Promise<string> {
  const project = await gcloudSetting(gcloud, 'project', signal);
  if (project === null) {
    throw new RemoteProblem('gcloud_project', 'gcloud has no project; choose one.', {
      command: 'gcloud config set project PROJECT'
    });
  }
  return project;
}

type Item = Readonly<Record<string, unknown>>;

export function items(text: string): readonly Item[] {
  const json: unknown = JSON.parse(text);
  return Array.isArray(json)
    ? json.filter((one): one is Item => typeof one === 'object' && one !== null)
    : [];
}

/** `projects/P/locations/Z/nodes/N` */
function tpuVm(item: Item): Machine[] {
  const match = /^projects\/([^/]+)\/locations\/([^/]+)\/nodes\/([^/]+)$/.exec(text(item['name']));
  if (!match) return [];
  const [, project = '', zone = '', name = ''] = match;
  return [
    {
      source: { kind: 'gcloud', product: 'tpu-vm', name, zone, project },
      acceleratorType: lastPart(item['acceleratorType']),
      state: text(item['state']) || 'UNKNOWN',
      ...spot(item['schedulingConfig'])
    }
  ];
}

function instance(item: Item): Machine[] {
  const zone = lastPart(item['zone']);
  const project = /\/projects\/([^/]+)\//.exec(text(item['selfLink']))?.[1];
  if (zone === null || text(item['name']) === '') return [];
  return [
    {
      source: {
        kind: 'gcloud',
        product: 'instance',
        name: text(item['name']),
        zone,
        ...(project === undefined ? {} : { project })
      },
      acceleratorType: lastPart(item['machineType']),
      state: text(item['status']) || 'UNKNOWN',
      ...spot(item['scheduling'])
    }
  ];
}

/** Nodes have `spot`, instances have `provisioningModel`, and older ones of both kinds have `preemptible`. */
function spot(scheduling: unknown): { spot?: true } {
  const { spot: isSpot, preemptible, provisioningModel } = (scheduling ?? {}) as Item;
  return isSpot === true || preemptible === true || provisioningModel === 'SPOT' ? { spot: true } : {};
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function lastPart(value: unknown): string | null {
  return text(value).split('/').at(-1) || null;
}

/**
 * Adds the zone to a machine that was named without one: gcloud's own zone, or the zone of the only machine with this name.
 *
 * @throws BridgeError `invalid_request` if only a person can decide
 */
export async function withZone(
  gcloud: Gcloud,
  source: Omit<GcloudSource, 'zone'>,
  signal: AbortSignal
): Promise<GcloudSource> {
  const { product, name, project } = source;
  const zones = await zonesOf(gcloud, source, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw bridgeError(
      'invalid_request',
      `In which zone is ${name}? Add the zone, as in us-east5-b. ${remoteErrorOf(error).message}`,
      error
    );
  });
  const [only, ...others] = zones;
  if (only === undefined) {
    const where = project === undefined ? 'the project that gcloud is set to' : `the project ${project}`;
    throw bridgeError(
      'invalid_request',
      `There is no ${product} named ${name} in ${where}. Check the name, or add the project or the zone.`
    );
  }
  if (others.length > 0) {
    throw bridgeError(
      'invalid_request',
      `There is more than one ${product} named ${name}: in ${zones.join(', ')}. Add the zone, as in ${only}.`
    );
  }
  return { ...source, zone: only };
}

/**
 * gcloud's own zone (`compute/zone`), in the form of its commands; if unset, the zones that have a machine with this name.
 *
 * @throws RemoteProblem
 */
async function zonesOf(
  gcloud: Gcloud,
  { product, name, project }: Pick<GcloudSource, 'product' | 'name' | 'project'>,
  signal: AbortSignal
): Promise<string[]> {
  const own = await gcloudSetting(gcloud, 'compute/zone', signal);
  if (own !== null) return [own];
  const listed = await gcloud.query(
    [
      ...['compute', ...LISTS[product].split(' '), '--format=json(name,zone)'],
      ...(project === undefined ? [] : [`--project=${project}`])
    ],
    { name, project, zone: undefined, product },
    signal
  );
  const zones = items(listed)
    .filter(item => lastPart(item['name']) === name)
    .map(item => zoneIn(item['name']) ?? lastPart(item['zone']));
  return [...new Set(zones.filter(zone => zone !== null))].sort();
}

/** `projects/P/locations/ZONE/nodes/NAME`; Compute Engine lists the zone beside the name, and a regional group has none. */
function zoneIn(name: unknown): string | null {
  return /^projects\/[^/]+\/locations\/([^/]+)\//.exec(String(name))?.[1] ?? null;
}
