/** Where processes that hold chips serve their metrics. */

export const DEFAULT_PORT = 8431;
/** A host has at most 8 chips; more ports than this are a mistake. */
const MAX_PORTS = 64;

/** From `TPU_RUNTIME_METRICS_PORTS` (`8431,8432,…`, one process for each); what is no port is left out. */
export function metricPorts(env: Readonly<Record<string, string | undefined>>): number[] {
  const ports = (env['TPU_RUNTIME_METRICS_PORTS'] ?? '')
    .split(',')
    .map(text => (/^\s*\d{1,5}\s*$/.test(text) ? Number(text) : 0))
    .filter(port => port > 0 && port < 65_536);
  return ports.length === 0 ? [DEFAULT_PORT] : [...new Set(ports)].slice(0, MAX_PORTS);
}
