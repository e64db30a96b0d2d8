/** The zone of a machine that a person names without it. */
import { type Gcloud, gcloudSetting, LISTS } from './gcloud.js';
import type { GcloudSource } from './machine.js';
import { items, lastPart } from './project-machines.js';
import { told } from '../remote-error.js';
import { InvalidRequestError } from '../../server/errors.js';

/**
 * A machine that was named without its zone, with it: gcloud's own zone, or that of the only machine of this name.
 *
 * @throws InvalidRequestError where only a person can say
 */
export async function withZone(
  gcloud: Gcloud,
  source: Omit<GcloudSource, 'zone'>,
  signal: AbortSignal
): Promise<GcloudSource> {
  const { product, name, project } = source;
  const zones = await zonesOf(gcloud, source, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new InvalidRequestError(
      `In which zone is ${name}? Add the zone, as in us-east5-b. ${told(error).message}`,
      error
    );
  });
  const [only, ...others] = zones;
  if (only === undefined) {
    const where = project === undefined ? 'the project that gcloud is set to' : `the project ${project}`;
    throw new InvalidRequestError(
      `There is no ${product} named ${name} in ${where}. Check the name, or add the project or the zone.`
    );
  }
  if (others.length > 0) {
    throw new InvalidRequestError(
      `There is more than one ${product} named ${name}: in ${zones.join(', ')}. Add the zone, as in ${only}.`
    );
  }
  return { ...source, zone: only };
}

/**
 * gcloud's own zone (`compute/zone`), as its commands take it; where that is not set, the zones that have a machine of this name.
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
  const listed = await gcloud.ask(
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

/** `projects/P/locations/ZONE/nodes/NAME`; what Compute Engine lists has its zone beside the name, and a regional group has none. */
function zoneIn(name: unknown): string | null {
  return /^projects\/[^/]+\/locations\/([^/]+)\//.exec(String(name))?.[1] ?? null;
}
