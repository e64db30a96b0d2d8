/**
 * The host keys of a TPU node, as the node itself reports them to Google Cloud in its guest attributes. With them nobody is asked
 * whether a fingerprint is right. `gcloud compute ssh` does this by itself for instances; the TPU commands do not.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { SshTarget } from '../ssh/ssh-config.js';
import { jsonIn } from '../../platform/json-text.js';

const TYPES = new Set([
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa'
]);

/** How ssh reaches a host, as gcloud says it. */
export interface GcloudTarget extends SshTarget {
  /** Under which its host key is known. */
  readonly alias: string | null;
  /** Whether gcloud knows that key already. */
  readonly isKnown: boolean;
}

/**
 * The same hosts, which are known by `file` alone where Google Cloud has told their keys.
 *
 * @param fetch asks for the guest attributes below `hostkeys/`, as JSON; called for hosts that are new
 */
export async function withHostKeys(
  targets: readonly GcloudTarget[],
  file: string,
  fetch: () => Promise<string>
): Promise<SshTarget[]> {
  const known = await readFile(file, 'utf8').catch(() => '');
  const isNew = targets.some(({ alias, isKnown }) => !isKnown && alias !== null && !hasKey(known, alias));
  // Where they cannot be had, ssh asks.
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

/** Any other key than the one that Google Cloud tells is refused, unasked. */
function knownHostsOf(file: string, options: readonly string[]): string[] {
  const others = options.flatMap((word, index) => {
    const isOther = (text: string | undefined): boolean => !/^UserKnownHostsFile=/i.test(text ?? '');
    return word === '-o' ? (isOther(options[index + 1]) ? [word] : []) : isOther(word) ? [word] : [];
  });
  return [...others, '-o', `UserKnownHostsFile="${file}"`, '-o', 'StrictHostKeyChecking=yes'];
}

/** `tpu.ID-WORKER`, perhaps with the end of the key behind it. */
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
