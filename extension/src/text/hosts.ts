/** Hosts of a slice in words. */
import { trans } from './trans.js';

/** `host 2`, `hosts 0-2, 5`. @param hosts ascending */
export function hostsText(hosts: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const host of hosts) {
    const last = ranges.at(-1);
    if (last?.[1] === host - 1) last[1] = host;
    else ranges.push([host, host]);
  }
  const text = ranges.map(([low, high]) => (low === high ? String(low) : `${low}-${high}`)).join(', ');
  return trans._n('host %2', 'hosts %2', hosts.length, text);
}
