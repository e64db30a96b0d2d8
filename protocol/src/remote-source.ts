/** Shared functions for the source of a remote: which machine it is, and how it is reached. */
import type { AddRemote, CloudReach, RemoteSource, UnplacedGcloudSource } from './remotes.js';

/** Kinds of machines of Google Cloud, as users type them. */
export const PRODUCTS = ['tpu-vm', 'queued-resource', 'instance', 'instance-group'] as const;

/** Parses `NAME`, `ZONE/NAME`, `PRODUCT/NAME` or `PRODUCT/ZONE/NAME`; null if the text is not in one of these forms. */
export function machineOf(text: string): (UnplacedGcloudSource & { readonly zone?: string }) | null {
  const parts = text.split('/');
  const product = PRODUCTS.find(one => one === parts[0] && parts.length > 1);
  const named = product === undefined ? parts : parts.slice(1);
  if (named.length > 2 || !named.every(part => /^[\w.:][\w.:-]{0,63}$/.test(part))) return null;
  const [name = '', zone] = named.reverse();
  return { kind: 'gcloud', product: product ?? 'tpu-vm', name, ...(zone !== undefined && { zone }) };
}

/**
 * Whether both are the same host or machine, however it is reached. A source without a zone matches a machine with the same
 * name.
 */
export function isSameMachine(one: RemoteSource, other: AddRemote['source']): boolean {
  if (one.kind === 'ssh') return other.kind === 'ssh' && one.destination === other.destination;
  if (one.kind === 'colab') return other.kind === 'colab' && one.accelerator === other.accelerator;
  return (
    other.kind === 'gcloud' &&
    (['product', 'name', 'project'] as const).every(key => one[key] === other[key]) &&
    (!('zone' in other) || one.zone === other.zone)
  );
}

/** How a machine is reached; null if there is only one way: an ssh host, a Colab runtime. */
export function reachOf(source: RemoteSource): CloudReach | null {
  if (source.kind !== 'gcloud') return null;
  if (source.tunnelThroughIap === true) return 'iap';
  return source.internalIp === true ? 'internal' : 'external';
}

/** The same machine, reached in this way; a machine with only one way is unchanged. */
export function reachedBy(source: RemoteSource, reach: CloudReach): RemoteSource;
export function reachedBy(source: AddRemote['source'], reach: CloudReach): AddRemote['source'];
export function reachedBy(source: AddRemote['source'], reach: CloudReach): AddRemote['source'] {
  if (source.kind !== 'gcloud') return source;
  const { internalIp: _internalIp, tunnelThroughIap: _tunnelThroughIap, ...machine } = source;
  return {
    ...machine,
    ...(reach === 'internal' && { internalIp: true }),
    ...(reach === 'iap' && { tunnelThroughIap: true })
  };
}
