/** Names of the bridge's kernelspecs in this page (docs/decisions/0004): stable, because notebooks store them. */
const OURS = 'tpulab-';
const PREFIX = 'bridge/';

/** The name that the page uses for the bridge's kernelspec `name`. */
export function labSpecName(name: string): string {
  return name.startsWith(OURS) ? name : PREFIX + name;
}

/** The bridge's own name for a name of the page; null when it is a kernelspec of the Jupyter server. */
export function bridgeSpecName(name: string): string | null {
  if (name.startsWith(OURS)) {
    return name;
  }
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : null;
}
