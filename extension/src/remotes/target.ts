/** Reads what somebody typed into "user@host". */
import type { RemoteSource } from '@tpulab/protocol';

/** Null when it cannot be a destination of ssh. A word that begins with a dash would be an option. */
export function sourceOf(text: string): RemoteSource | null {
  const destination = text.trim();
  const isOne = /^(ssh:\/\/)?[^\s-][^\s]*$/.test(destination) && !/[;&|<>`$'"\\]/.test(destination);
  return isOne && destination.length <= 512 ? { kind: 'ssh', destination } : null;
}
