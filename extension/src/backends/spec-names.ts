/**
 * Names of kernelspecs in this page (docs/decisions/0004): stable, because notebooks store them. Names of the bridge's specs
 * are `tpulab-…` or `bridge/…`, of a remote's specs `remote/NAME/…`; all others are the Jupyter server's.
 */
/** `jupyter`: the page's own server. `bridge`: the bridge on this machine. `remote/NAME`: a remote behind it. */
export type Place = string;

const SPEC_PREFIX = 'tpulab-';
const BRIDGE = 'bridge/';
const REMOTE = 'remote/';
const SLICE_KERNEL = /(^|\/)tpulab-slice-[^/]+$/;

/** The place of a remote. */
export function remotePlace(name: string): Place {
  return `${REMOTE}${name}`;
}

/** The remote of a place; null for the other places. */
export function remoteOfPlace(place: Place): string | null {
  return place.startsWith(REMOTE) ? place.slice(REMOTE.length) : null;
}

/** The name that the page uses for the kernelspec `name` of `place`. */
export function labSpecName(place: Place, name: string): string {
  if (place === 'jupyter') return name;
  if (place === 'bridge') return name.startsWith(SPEC_PREFIX) ? name : BRIDGE + name;
  return `${place}/${name}`;
}

/** Where a name of the page starts a kernel, and the name of the kernelspec there. */
export function splitSpecName(name: string): { place: Place; name: string } {
  if (name.startsWith(SPEC_PREFIX)) return { place: 'bridge', name };
  if (name.startsWith(BRIDGE)) return { place: 'bridge', name: name.slice(BRIDGE.length) };
  const remote = /^(remote\/[^/]+)\/(.+)$/.exec(name);
  return remote?.[1] !== undefined && remote[2] !== undefined
    ? { place: remote[1], name: remote[2] }
    : { place: 'jupyter', name };
}

/** Whether its cells run on all hosts of a slice, here or on a remote. */
export function isSliceKernel(specName: string | undefined): boolean {
  return specName !== undefined && SLICE_KERNEL.test(specName);
}
