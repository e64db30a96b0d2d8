/** Display names of remotes and their kernels. */
import type { AddRemote, Remote } from '@tpulab/protocol';

/** `v5e-8`; null while unknown or without an accelerator. */
export function acceleratorName({ accelerator }: Pick<Remote, 'accelerator'>): string | null {
  if (accelerator === null) return null;
  const { type, chip, chips } = accelerator;
  if (chip !== null) return chips > 0 ? `${chip}-${chips}` : chip;
  return type;
}

/** The page's name of `JAX (XLA) on this machine` of the remote's own gateway: `JAX · my-tpu (v5e-8)`. */
export function remoteKernelName(displayName: string, remoteDisplayName: string): string {
  const bare = displayName
    .replace(/ on this machine$/, '')
    .replace(/ \(XLA\)/, '')
    .trim();
  return `${bare} · ${remoteDisplayName}`;
}

/** The location of a remote, in one line. */
export function sourceName(source: AddRemote['source']): string {
  if (source.kind === 'colab') return `Colab, TPU ${source.accelerator}`;
  return source.kind === 'ssh'
    ? source.destination
    : [
        source.name,
        'zone' in source ? source.zone : undefined,
        source.project,
        // Google's product names, in every language.
        source.internalIp === true ? 'internal IP' : undefined,
        source.tunnelThroughIap === true ? 'IAP' : undefined
      ]
        .filter(part => part !== undefined)
        .join(', ');
}
