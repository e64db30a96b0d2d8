/** The machines with TPUs in a project, of both generations of the API. */
import type { RemoteCandidates } from '@tpulab/protocol';
import { told } from '../remote-error.js';
import { RemoteProblem } from '../remote-error.js';
import { type Gcloud, gcloudSetting } from './gcloud.js';

type Found = RemoteCandidates['gcloud'];
type Machine = Found['machines'][number];

/** `wanted` is the project; without it the one that gcloud has been set to. */
export async function projectMachines(gcloud: Gcloud, signal: AbortSignal, wanted?: string): Promise<Found> {
  let project = wanted ?? null;
  try {
    project ??= await ownProject(gcloud, signal);
    const asked = { project, zone: undefined };
    const list = async (args: readonly string[]): Promise<readonly Item[]> =>
      items(await gcloud.ask([...args, '--format=json', `--project=${project}`], asked, signal));
    const parts = await Promise.allSettled([
      list(['compute', 'tpus', 'tpu-vm', 'list', '--zone=-']).then(all => all.flatMap(tpuVm)),
      list(['compute', 'instances', 'list', '--filter=machineType~/(ct|tpu)[0-9]']).then(all =>
        all.flatMap(instance)
      )
    ]);
    const machines = parts.flatMap(part => (part.status === 'fulfilled' ? part.value : []));
    const failed = parts.find(part => part.status === 'rejected');
    // One API may be off in a project that uses the other.
    if (failed && machines.length === 0) throw failed.reason;
    return { state: 'ok', message: null, remedy: null, project, machines };
  } catch (error) {
    const { code, message, command } = told(error);
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

/** Nodes say `spot`, instances `provisioningModel`, and older ones of both `preemptible`. */
function spot(scheduling: unknown): { spot?: true } {
  const { spot: isSpot, preemptible, provisioningModel } = (scheduling ?? {}) as Item;
  return isSpot === true || preemptible === true || provisioningModel === 'SPOT' ? { spot: true } : {};
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function lastPart(value: unknown): string | null {
  return text(value).split('/').at(-1) || null;
}
