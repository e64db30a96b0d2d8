/** The meaning of `tpulab connect TARGET`: a known remote, a host for ssh, or a machine of Google Cloud. */
import { type CloudReach, machineOf, PRODUCTS, readPasted, type RemoteSource } from '@tpulab/protocol';
import { type Gcloud, withZone as zoneOf } from '@tpulab/machines';
import { isBridgeError } from '@tpulab/platform/errors.js';
import { CommandError } from '../output.js';

export interface TargetOptions {
  readonly zone?: string;
  readonly project?: string;
  readonly externalIp?: true;
  readonly internalIp?: true;
  readonly tunnelThroughIap?: true;
  /** For Colab. */
  readonly tpu?: string;
}

const TPUS = ['v5e1', 'v6e1'] as const;
const FORM = 'gcloud:[PRODUCT/]NAME or gcloud:[PRODUCT/]ZONE/NAME';

/**
 * Parses the typed or pasted text into a target with its options.
 *
 * @throws CommandError `remote_target_invalid`
 */
export function understood<T extends TargetOptions>(
  text: string,
  options: T
): { target: string; options: T } {
  const pasted = readPasted(text);
  if ('refused' in pasted) throw new CommandError('remote_target_invalid', pasted.refused);
  const { target, ...found } = pasted;
  return { target, options: { ...found, ...options } };
}

/** @throws CommandError `remote_target_invalid` */
export function sourceOf(target: string, options: TargetOptions): RemoteSource {
  if (/^colab:/i.test(target)) return colabSource(target.slice('colab:'.length).toLowerCase(), options.tpu);
  if (!/^gcloud:/i.test(target)) return { kind: 'ssh', destination: target };
  const { product, name, zone } = machineIn(target, options);
  if (zone === '') throw zoneRequired(name);
  return {
    kind: 'gcloud',
    product,
    name,
    zone,
    ...(options.project === undefined ? {} : { project: options.project }),
    ...(options.internalIp ? { internalIp: true } : {}),
    ...(options.tunnelThroughIap ? { tunnelThroughIap: true } : {})
  };
}

/**
 * Adds the zone to the options of a Google Cloud machine: gcloud's own zone, or the zone of the only machine with this name.
 *
 * @throws CommandError `remote_target_invalid`
 */
export async function withZone<T extends TargetOptions>(
  target: string,
  options: T,
  gcloud: Gcloud,
  signal: AbortSignal
): Promise<T> {
  if (!/^gcloud:/i.test(target)) return options;
  const { product, name, zone } = machineIn(target, options);
  if (zone !== '') return options;
  const { project } = options;
  const source = { kind: 'gcloud', product, name, ...(project === undefined ? {} : { project }) } as const;
  try {
    return { ...options, zone: (await zoneOf(gcloud, source, signal)).zone };
  } catch (error) {
    if (!isBridgeError(error, 'invalid_request')) throw error;
    throw new CommandError('remote_target_invalid', `${error.message} Write it as --zone ZONE.`, {
      cause: error
    });
  }
}

/** `zone` is empty if none was given. */
function machineIn(target: string, options: TargetOptions) {
  const machine = machineOf(target.slice('gcloud:'.length));
  if (machine !== null) return { ...machine, zone: machine.zone ?? options.zone ?? '' };
  throw new CommandError(
    'remote_target_invalid',
    `"${target}" is not a machine; write ${FORM}; products are ${PRODUCTS.join(', ')}.`
  );
}

function zoneRequired(name: string, why = ''): CommandError {
  return new CommandError(
    'remote_target_invalid',
    `In which zone is ${name}? Add --zone, as in --zone us-east5-b. ${why}`.trim()
  );
}

/** `colab:`, `colab:v6e1`. `colab` replaces an unknown type by v6e1, which costs more. */
function colabSource(named: string, tpu: string | undefined): RemoteSource {
  const chosen = named === '' ? (tpu ?? 'v5e1') : named;
  const accelerator = TPUS.find(one => one === chosen);
  if (accelerator === undefined || (named !== '' && tpu !== undefined && tpu !== named)) {
    throw new CommandError(
      'remote_target_invalid',
      `Colab has no TPU "${chosen}"; write colab: with --tpu ${TPUS.join(' or --tpu ')}.`
    );
  }
  return { kind: 'colab', accelerator };
}

/** The requested access path to the machine, if any. */
export function reachOf({ externalIp, internalIp, tunnelThroughIap }: TargetOptions): CloudReach | undefined {
  if (tunnelThroughIap) return 'iap';
  if (internalIp) return 'internal';
  return externalIp ? 'external' : undefined;
}

/** The source as a person types it. */
export function sourceText(source: RemoteSource): string {
  if (source.kind === 'ssh') return source.destination;
  if (source.kind === 'colab') return `colab:${source.accelerator}`;
  const { product, zone, name, project, internalIp, tunnelThroughIap } = source;
  return [
    `gcloud:${product}/${zone}/${name}`,
    ...(project === undefined ? [] : [`(${project})`]),
    ...(internalIp === true ? ['--internal-ip'] : []),
    ...(tunnelThroughIap === true ? ['--tunnel-through-iap'] : [])
  ].join(' ');
}
