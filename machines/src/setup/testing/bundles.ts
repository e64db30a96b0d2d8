/**
 * For specs: the bridge as it is copied to hosts, built from the current sources, with small environments in addition to
 * the real ones.
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
export const UV = path.join(ROOT, '.tpulab', 'tools', 'bin', 'uv');

export async function makeBundle(folder: string): Promise<string> {
  await run(process.execPath, [path.join(ROOT, 'scripts', 'package', 'bundle.mjs'), folder]);
  await addTinyEnvironment(folder);
  await addPlainEnvironment(folder);
  return folder;
}

/** Another build of the same bridge, or of another `version` if given. */
export async function otherVersion(bundle: string, folder: string, version?: string): Promise<string> {
  await cp(bundle, folder, { recursive: true });
  const hash = digest(randomUUID());
  await changeRecord(folder, () => ({ hash, ...(version === undefined ? {} : { version }) }));
  return folder;
}

/** `tiny`: one package without dependencies, no agent, so that it is created within moments. */
async function addTinyEnvironment(bundle: string): Promise<void> {
  await addEnvironment(bundle, {
    name: 'tiny',
    packages: lock => lock.filter(({ name }) => name === 'cycler'),
    agent: false,
    argv: ['-c', 'pass', '{connection_file}'],
    tpuDiskMiB: 10,
    try: 'pass'
  });
}

/** `plain`: a real kernel with our agent and launcher, without JAX, which is the largest part of `jax`. */
async function addPlainEnvironment(bundle: string): Promise<void> {
  await addEnvironment(bundle, {
    name: 'plain',
    packages: lock => neededBy('ipykernel', lock),
    agent: true,
    argv: ['-m', 'tpulab.launcher', '-f', '{connection_file}'],
    // More than the capacity of any disk.
    tpuDiskMiB: 2 ** 40,
    try: 'import ipykernel, tpulab.launcher'
  });
}

interface Locked {
  readonly name: string;
  /** Its lines of the lock file. */
  readonly text: string;
  /** Names of the packages that require it; `-r FILE` for a direct requirement. */
  readonly via: readonly string[];
}

interface SmallEnvironment {
  readonly name: string;
  readonly packages: (lock: readonly Locked[]) => readonly Locked[];
  readonly agent: boolean;
  readonly argv: readonly string[];
  /** Required disk space on machines with chips. */
  readonly tpuDiskMiB: number;
  /** Python code that runs only in a working environment. */
  readonly try: string;
}

async function addEnvironment(bundle: string, environment: SmallEnvironment): Promise<void> {
  const { name, packages, agent, argv } = environment;
  const folder = path.join(bundle, 'environments', name);
  await mkdir(folder);
  const description = {
    displayName: name,
    summary: 'small, for specs',
    python: '>=3.11,<3.14',
    agent,
    diskMiB: 10,
    tpu: {
      displayName: `${name} on TPU`,
      diskMiB: environment.tpuDiskMiB,
      env: {},
      envDefaults: {},
      chips: ['v5e']
    },
    kernelspec: { argv, env: {}, envDefaults: {}, debugger: false }
  };
  await writeFile(path.join(folder, 'environment.json'), JSON.stringify(description));
  const lock = await readFile(path.join(bundle, 'environments', 'jax', 'requirements.lock'), 'utf8');
  const chosen = packages(lockedIn(lock));
  if (chosen.length === 0)
    throw new Error(`the lock of jax has nothing for ${name} any more; take other packages`);
  await writeFile(path.join(folder, 'requirements.lock'), chosen.map(({ text }) => text).join(''));
  const smokeTest = `${environment.try}\nprint('{"check": "it starts", "ok": true, "detail": "yes", "remedy": null}')\n`;
  await writeFile(path.join(folder, 'smoke_test.py'), smokeTest);
}

function lockedIn(lock: string): Locked[] {
  return [...lock.matchAll(/^([\w.-]+)==.*\n(?:[ ].*\n)+/gm)].map(([text, name = '']) => ({
    name,
    text,
    via: [...text.matchAll(/^ +# (?:via)? *(\S.*)$/gm)].map(([, by = '']) => by)
  }));
}

/** A package with all of its direct and indirect dependencies. */
function neededBy(name: string, lock: readonly Locked[]): Locked[] {
  const names = new Set([name]);
  for (let before = 0; before < names.size;) {
    before = names.size;
    for (const each of lock) if (each.via.some(by => names.has(by))) names.add(each.name);
  }
  return lock.filter(each => names.has(each.name));
}

async function changeRecord(folder: string, change: () => Record<string, string>): Promise<void> {
  const file = path.join(folder, 'payload.json');
  const record = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  await writeFile(file, JSON.stringify({ ...record, ...change() }));
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
