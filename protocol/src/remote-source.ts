/** What is said of the source of a remote by all who handle one: which machine it is, and which way there is taken. */
import type { CloudReach, RemoteSource } from './remotes.js';

/** Whether both are the same host or machine, however it is reached. */
export function isSameMachine(one: RemoteSource, other: RemoteSource): boolean {
  if (one.kind === 'ssh' || other.kind === 'ssh')
    return one.kind === 'ssh' && other.kind === 'ssh' && one.destination === other.destination;
  return (['product', 'name', 'zone', 'project'] as const).every(key => one[key] === other[key]);
}

/** How a machine is reached; null for a host of ssh, which is reached as its configuration says. */
export function reachOf(source: RemoteSource): CloudReach | null {
  if (source.kind === 'ssh') return null;
  if (source.tunnelThroughIap === true) return 'iap';
  return source.internalIp === true ? 'internal' : 'external';
}

/** The same machine, reached in this way; a host of ssh as it is. */
export function reachedBy(source: RemoteSource, reach: CloudReach): RemoteSource {
  if (source.kind === 'ssh') return source;
  const { internalIp: _internalIp, tunnelThroughIap: _tunnelThroughIap, ...machine } = source;
  return {
    ...machine,
    ...(reach === 'internal' && { internalIp: true }),
    ...(reach === 'iap' && { tunnelThroughIap: true })
  };
}
