/** Reads what somebody typed: a destination of ssh, or a machine of Google Cloud as `tpulab connect` takes it, with its zone. */
import type { RemoteSource } from '@tpulab/protocol';

const PRODUCTS = ['tpu-vm', 'queued-resource', 'instance', 'instance-group'] as const;
const CLOUD = /^gcloud:/i;

/** How a machine of Google Cloud is written here. */
export const CLOUD_FORM = 'gcloud:ZONE/NAME';
export const CLOUD_FORM_IN_FULL = `gcloud:PRODUCT/ZONE/NAME (${PRODUCTS.join(', ')})`;

/** Null when it can be neither. A word that begins with a dash would be an option. */
export function sourceOf(text: string): RemoteSource | null {
  const destination = text.trim();
  if (isCloud(destination)) {
    return machineOf(destination.replace(CLOUD, ''));
  }
  const isOne = /^(ssh:\/\/)?[^\s-][^\s]*$/.test(destination) && !/[;&|<>`$'"\\]/.test(destination);
  return isOne && destination.length <= 512 ? { kind: 'ssh', destination } : null;
}

/** Whether somebody means a machine of Google Cloud, be it written right or not. */
export function isCloud(text: string): boolean {
  return CLOUD.test(text.trim());
}

function machineOf(text: string): RemoteSource | null {
  const parts = text.split('/');
  const product = PRODUCTS.find(one => one === parts[0]);
  const [zone, name, ...more] = product === undefined ? parts : parts.slice(1);
  if (zone === undefined || name === undefined || more.length > 0 || ![zone, name].every(isWord)) {
    return null;
  }
  return { kind: 'gcloud', product: product ?? 'tpu-vm', name, zone };
}

function isWord(text: string): boolean {
  return /^[\w.:][\w.:-]*$/.test(text) && text.length <= 64;
}
