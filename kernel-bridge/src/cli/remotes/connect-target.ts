/** What `tpulab connect TARGET` means: a remote that is known, a host for ssh, or a machine of Google Cloud. */
import { type AddRemote, type CloudReach, type RemoteSource } from '@tpulab/protocol';
import { CommandError } from '../command-errors.js';

export interface TargetOptions {
  readonly zone?: string;
  readonly project?: string;
  readonly externalIp?: true;
  readonly internalIp?: true;
  readonly iap?: true;
}

const PRODUCTS = ['tpu-vm', 'queued-resource', 'instance', 'instance-group'] as const;
const FORM = 'gcloud:[PRODUCT/]NAME with --zone, or gcloud:[PRODUCT/]ZONE/NAME';

/** @throws CommandError `remote_target_invalid` */
export function sourceOf(target: string, options: TargetOptions): AddRemote['source'] {
  if (!/^gcloud:/i.test(target)) return { kind: 'ssh', destination: target };
  const parts = target.slice('gcloud:'.length).split('/');
  const product = PRODUCTS.find(one => one === parts[0]);
  if (product) parts.shift();
  const name = parts.pop() ?? '';
  const zone = parts.pop() ?? options.zone ?? '';
  if (name === '' || parts.length > 0) {
    throw new CommandError(
      'remote_target_invalid',
      `"${target}" names no machine; write ${FORM}. Products are ${PRODUCTS.join(', ')}.`
    );
  }
  if (zone === '') {
    throw new CommandError(
      'remote_target_invalid',
      `In which zone is ${name}? Add --zone, as in --zone us-east5-b.`
    );
  }
  return {
    kind: 'gcloud',
    product: product ?? 'tpu-vm',
    name,
    zone,
    ...(options.project === undefined ? {} : { project: options.project }),
    ...(options.internalIp ? { internalIp: true } : {}),
    ...(options.iap ? { tunnelThroughIap: true } : {})
  };
}

/** How the machine is to be reached, where that was said. */
export function reachOf({ externalIp, internalIp, iap }: TargetOptions): CloudReach | undefined {
  if (iap) return 'iap';
  if (internalIp) return 'internal';
  return externalIp ? 'external' : undefined;
}

/** As a person would write it. */
export function sourceText(source: RemoteSource): string {
  if (source.kind === 'ssh') return source.destination;
  const { product, zone, name, project, internalIp, tunnelThroughIap } = source;
  return [
    `gcloud:${product}/${zone}/${name}`,
    ...(project === undefined ? [] : [`(${project})`]),
    ...(internalIp === true ? ['--internal-ip'] : []),
    ...(tunnelThroughIap === true ? ['--iap'] : [])
  ].join(' ');
}
