/** Parses the typed target: a destination of ssh, `colab:`, or a machine of Google Cloud as `tpulab connect` accepts it. */
import { type AddRemote, machineOf, PRODUCTS, readPasted } from '@tpulab/protocol';

const CLOUD = /^gcloud:/i;

/** The notation of a Google Cloud machine. */
export const CLOUD_FORM = 'gcloud:NAME';
export const CLOUD_FORM_IN_FULL = `gcloud:[PRODUCT/][ZONE/]NAME (${PRODUCTS.join(', ')})`;

/** Null when it can be neither. A word that begins with a dash would be an option. */
export function sourceOf(text: string): AddRemote['source'] | null {
  const pasted = readPasted(text);
  if ('refused' in pasted) return null;
  const { target: destination, ...found } = pasted;
  if (isCloud(destination)) {
    const machine = machineOf(destination.replace(CLOUD, ''));
    return machine === null ? null : { ...machine, ...found };
  }
  const runtime = /^colab:(v5e1|v6e1)?$/i.exec(destination);
  if (runtime) return { kind: 'colab', accelerator: runtime[1]?.toLowerCase() === 'v6e1' ? 'v6e1' : 'v5e1' };
  return { kind: 'ssh', destination };
}

/** Why the pasted text cannot be a host; null where it can, or nothing was typed. */
export function refusalOf(text: string): string | null {
  const pasted = readPasted(text);
  return text.trim() !== '' && 'refused' in pasted ? pasted.refused : null;
}

/** Whether the user means a machine of Google Cloud, spelled correctly or not. */
export function isCloud(text: string): boolean {
  return CLOUD.test(text.trim());
}
