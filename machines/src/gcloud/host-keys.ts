/**
 * The host keys of a TPU node, as the node itself reports them to Google Cloud in its guest attributes. With these keys, no
 * person has to confirm a fingerprint. `gcloud compute ssh` does this automatically for instances; the TPU commands do not.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { SshTarget } from '../ssh/ssh-config.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

const TYPES = new Set([
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa'
]);

/** An ssh target as printed by gcloud. */
export interface GcloudTarget extends SshTarget {
  /** Alias of the host in `known_hosts`. */
  readonly alias: string | null;
  /** Whether gcloud already knows this key. */
  readonly isKnown: boolean;
}

/**
 * The same hosts; `file` contains only their keys, if Google Cloud has reported them.
 *
 * @param fetch fetches the guest attributes below `hostkeys/`, as JSON; called for new hosts
 */
export async function withHostKeys(
  targets: readonly GcloudTarget[],
  file: string,
  fetch: () => Promise<string>
): Promise<SshTarget[]> {
  const known = await readFile(file, 'utf8').catch(() => '');
  const isNew = targets.some(({ alias, isKnown }) => !isKnown && alias !== null && !hasKey(known, alias));
  // If the keys are unavailable, ssh asks the person.
  const fetched = isNew ? keysByWorker(await fetch().catch(() => '')) : new Map<number, string[]>();
  const lines = targets.flatMap(({ alias }) => {
    const keys = fetched.get(workerOf(alias)) ?? [];
    return keys.length === 0
      ? known.split('\n').filter(line => alias !== null && line.startsWith(`${alias} `))
      : keys.map(key => `${alias} ${key}`);
  });
  const text = lines.map(line => `${line}\n`).join('');
  if (text !== known) {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, text, { mode: 0o600 });
  }
  return targets.map(({ destination, options, alias }) => ({
    destination,
    options: alias !== null && hasKey(text, alias) ? knownHostsOf(file, options) : options
  }));
}

function hasKey(text: string, alias: string): boolean {
  return text.split('\n').some(line => line.startsWith(`${alias} `));
}

/** Refuses, without a prompt, every key that Google Cloud does not report. */
function knownHostsOf(file: string, options: readonly string[]): string[] {
  const others = options.flatMap((word, index) => {
    const isOther = (text: string | undefined): boolean => !/^UserKnownHostsFile=/i.test(text ?? '');
    return word === '-o' ? (isOther(options[index + 1]) ? [word] : []) : isOther(word) ? [word] : [];
  });
  return [...others, '-o', `UserKnownHostsFile="${file}"`, '-o', 'StrictHostKeyChecking=yes'];
}

/** `tpu.ID-WORKER`, optionally followed by the end of the key. */
function workerOf(alias: string | null): number {
  return Number(/^tpu\.\d+-(\d+)(?:-|$)/.exec(alias ?? '')?.[1] ?? Number.NaN);
}

function keysByWorker(json: string): Map<number, string[]> {
  const found = new Map<number, string[]>();
  for (const item of parse(json)) {
    const { namespace, key, value, worker_id: worker } = item as Record<string, unknown>;
    const [text = ''] = typeof value === 'string' ? value.split(/\s/) : [];
    if (namespace !== 'hostkeys' || typeof key !== 'string' || !TYPES.has(key)) continue;
    if (typeof worker !== 'number' || !/^[A-Za-z0-9+/]{40,}={0,2}$/.test(text)) continue;
    found.set(worker, [...(found.get(worker) ?? []), `${key} ${text}`]);
  }
  return found;
}

function parse(json: string): readonly unknown[] {
  const items = jsonIn(json);
  return Array.isArray(items) ? items.filter(item => typeof item === 'object' && item !== null) : [];
}
