/**
 * Fetches files for a host that cannot reach a package index: on this machine, with its pip settings, for the host's
 * platform. Only files that a lock file pins with a hash are fetched; existing files are not fetched again.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { pythonFreeEnv, runUv } from '../environments/uv.js';
import { type ProgramResult, runProgram } from '../environments/run-program.js';
import { LockHeldError, type ProcessLock, takeProcessLock } from '@tpulab/platform/process-lock.js';
import { SetupError } from './stage-reporter.js';
import { pipPlatforms, type Platform, type ToolWheel, uvPlatform } from './host-layout.js';
import { pause } from '@tpulab/platform/waiting.js';
import { tmpdir } from 'node:os';
import { parse } from 'smol-toml';

export interface FetchContext {
  readonly cache: string;
  /** Folder of environment descriptions, with the lock file of pip. */
  readonly definitions: string;
  readonly uv: string;
  readonly platform: Platform;
  readonly signal: AbortSignal;
  readonly onLine: (line: string) => void;
}

/** `3.12`: the version that a host gets if its own Python does not fit. */
export const OWN_PYTHON = '3.12';

const POLL_MS = 500;

/** The wheel of a tool; returns the path of the local file. @throws SetupError */
export async function fetchTool(tool: ToolWheel, context: FetchContext): Promise<string> {
  const hashes = [...tool.hashes].map(hash => ` --hash=sha256:${hash}`).join('');
  const [file] = await fetchLocked(
    `${tool.name}==${tool.version}${hashes}\n`,
    tool.name,
    OWN_PYTHON,
    context
  );
  if (file !== undefined) return file;
  throw new SetupError('setup_download_failed', `${tool.name} ${tool.version} could not be fetched.`);
}

/** All wheels of an environment. @param python `3.12`, the version on the host @throws SetupError */
export async function fetchEnvironment(
  lockFile: string,
  name: string,
  python: string,
  context: FetchContext
): Promise<readonly string[]> {
  const args = [
    ...[
      'pip',
      'compile',
      lockFile,
      '--quiet',
      '--no-deps',
      '--generate-hashes',
      '--no-header',
      '--no-annotate'
    ],
    ...[
      '--only-binary',
      ':all:',
      '--python-version',
      python,
      '--python-platform',
      uvPlatform(context.platform)
    ]
  ];
  // The lock file covers all systems; pip would evaluate its conditions for this machine instead of the host.
  const { exitCode, stdout, stderr } = await runUv({
    uv: context.uv,
    args,
    signal: context.signal,
    maxLines: 100_000
  });
  context.signal.throwIfAborted();
  if (exitCode !== 0) throw downloadFailed(name, stderr);
  return fetchLocked(`${stdout.join('\n')}\n`, name, python, context);
}

/** A Python for the host's platform, as a relocatable folder. @throws SetupError */
export async function fetchPython({ cache, uv, platform, signal, onLine }: FetchContext): Promise<string> {
  const request = `cpython-${OWN_PYTHON}-linux-${platform.machine}-gnu`;
  const folder = path.join(cache, `python-${request}`);
  if (existsSync(folder)) return folder;
  await using _turn = await turnOf(cache, signal, onLine);
  if (existsSync(folder)) return folder;
  const building = await mkdtemp(path.join(cache, '.building-'));
  try {
    const { exitCode, stderr } = await runUv({
      uv,
      args: ['python', 'install', '--no-bin', '--install-dir', building, request],
      signal,
      onLine,
      mayDownloadPython: true
    });
    signal.throwIfAborted();
    if (exitCode !== 0) {
      throw new SetupError(
        'setup_python_failed',
        `Python ${OWN_PYTHON} for ${platform.machine} could not be fetched (${stderr.at(-1)?.trim() ?? 'uv failed'}); check the network, or install Python 3.11 or newer on the host.`
      );
    }
    await rename(building, folder);
    return folder;
  } finally {
    await rm(building, { recursive: true, force: true });
  }
}

async function fetchLocked(
  requirements: string,
  name: string,
  python: string,
  context: FetchContext
): Promise<readonly string[]> {
  const { cache, platform } = context;
  const key = createHash('sha256')
    .update(JSON.stringify([requirements, python, platform]))
    .digest('hex')
    .slice(0, 16);
  const folder = path.join(cache, 'wheels', `${name}-${key}`);
  if (!existsSync(folder)) await fetchInto(folder, name, requirements, python, context);
  return (await readdir(folder))
    .filter(entry => entry.endsWith('.whl'))
    .map(entry => path.join(folder, entry));
}

async function fetchInto(
  folder: string,
  name: string,
  requirements: string,
  python: string,
  context: FetchContext
): Promise<void> {
  const { cache, platform, signal, onLine } = context;
  await using _turn = await turnOf(cache, signal, onLine);
  if (existsSync(folder)) return;
  await mkdir(path.dirname(folder), { recursive: true, mode: 0o700 });
  const building = `${folder}.partial`;
  await mkdir(building, { recursive: true });
  const file = `${folder}.txt`;
  await writeFile(file, requirements);
  const short = python.replace('.', '');
  const result = await pip(
    [
      ...[
        'download',
        '--quiet',
        '--no-deps',
        '--require-hashes',
        '--only-binary',
        ':all:',
        '--dest',
        building
      ],
      ...['--python-version', python, '--implementation', 'cp'],
      ...[`cp${short}`, 'abi3', 'none'].flatMap(abi => ['--abi', abi]),
      ...pipPlatforms(platform).flatMap(tag => ['--platform', tag]),
      ...['-r', file]
    ],
    context
  );
  signal.throwIfAborted();
  if (result.exitCode !== 0) throw downloadFailed(name, result.stderr);
  await rename(building, folder);
  await rm(file, { force: true });
  onLine(`fetched the files of ${name}`);
}

/** Only one process fetches at a time, even across gateways on this machine; the next one finds the fetched files. */
async function turnOf(
  cache: string,
  signal: AbortSignal,
  onLine: (line: string) => void
): Promise<ProcessLock> {
  await mkdir(cache, { recursive: true, mode: 0o700 });
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await takeProcessLock(path.join(cache, 'fetching.lock'));
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      if (isFirst) onLine(`waiting for process ${error.holder.pid}, which is fetching files for a host`);
      await pause(POLL_MS, signal);
      signal.throwIfAborted();
    }
  }
}

/** Runs pip in a separate environment: only pip can fetch wheels for another platform and store them as files. */
async function pip(args: readonly string[], context: FetchContext): Promise<ProgramResult> {
  const { cache, definitions, uv, signal, onLine } = context;
  const lock = path.join(definitions, 'fetch', 'requirements.lock');
  const key = createHash('sha256')
    .update(await readFile(lock))
    .digest('hex')
    .slice(0, 12);
  const venv = path.join(cache, `pip-${key}`);
  if (!existsSync(path.join(venv, 'ready'))) {
    const steps = [
      ['venv', '--clear', '--no-project', '--no-config', venv],
      ['pip', 'install', '--python', path.join(venv, 'bin', 'python'), '--require-hashes', '-r', lock]
    ];
    for (const step of steps) {
      const { exitCode, stderr } = await runUv({ uv, args: step, signal, onLine });
      signal.throwIfAborted();
      if (exitCode !== 0) throw downloadFailed('pip', stderr);
    }
    await writeFile(path.join(venv, 'ready'), '');
  }
  return runProgram({
    command: path.join(venv, 'bin', 'python'),
    args: ['-m', 'pip', '--disable-pip-version-check', '--no-input', ...args],
    env: pythonFreeEnv(process.env),
    signal,
    onLine
  });
}

function downloadFailed(what: string, stderr: readonly string[]): SetupError {
  const reason =
    stderr
      .filter(line => line.trim() !== '')
      .at(-1)
      ?.trim() ?? 'no reason was given';
  return new SetupError(
    'setup_download_failed',
    `The files of ${what} could not be fetched on this machine (${reason}); check its network and the settings of its package index.`
  );
}

/** Location of a tool's wheel in this machine's package index, and its sha256 from the lock file. */
export interface WheelFile {
  readonly url: string;
  readonly fileName: string;
  readonly sha256: string;
  readonly bytes: number | null;
}

interface Pylock {
  readonly packages?: readonly {
    readonly name?: string;
    readonly wheels?: readonly {
      readonly name?: string;
      readonly url?: string;
      readonly size?: number | bigint;
      readonly hashes?: { readonly sha256?: string };
    }[];
  }[];
}

/** The wheels fit any Python; uv only requires a version. */
const PYTHON = '3.12';

/** @throws SetupError `setup_download_failed` if the index does not answer or has no such wheel */
export async function wheelOf(
  tool: ToolWheel,
  platform: Platform,
  uv: string,
  signal: AbortSignal
): Promise<WheelFile> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tpulab-wheel-'));
  try {
    const requirement = path.join(folder, 'requirement.txt');
    await writeFile(requirement, `${tool.name}==${tool.version}\n`);
    const { exitCode, stdout, stderr } = await runUv({
      uv,
      args: [
        ...['pip', 'compile', requirement, '--quiet', '--no-deps', '--only-binary', ':all:'],
        ...['--format', 'pylock.toml', '--python-version', PYTHON, '--python-platform', uvPlatform(platform)]
      ],
      signal,
      maxLines: 2000
    });
    signal.throwIfAborted();
    const wheels = exitCode === 0 ? ((parse(stdout.join('\n')) as Pylock).packages?.[0]?.wheels ?? []) : [];
    const found = wheels
      .flatMap(({ name, url, size, hashes }): WheelFile[] => {
        const fileName = name ?? decodeURIComponent(url?.split(/[?#]/)[0]?.split('/').at(-1) ?? '');
        if (url === undefined || hashes?.sha256 === undefined || !tool.hashes.has(hashes.sha256)) return [];
        return [{ url, fileName, sha256: hashes.sha256, bytes: size === undefined ? null : Number(size) }];
      })
      .find(({ fileName }) => runsOn(fileName, platform));
    if (found) return found;
    throw new SetupError(
      'setup_download_failed',
      `The package index of this machine does not have ${tool.name} ${tool.version} for ${platform.machine} (${stderr.at(-1)?.trim() ?? 'no such wheel'}); check the network and the settings of the index (UV_DEFAULT_INDEX, uv.toml).`
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Checks the platform tag of the file name: `…-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`. */
export function runsOn(fileName: string, { machine, glibc }: Platform): boolean {
  const tags = /-([^-]+)\.whl$/.exec(fileName)?.[1]?.split('.') ?? [];
  return tags.some(tag => {
    if (tag === 'any') return true;
    const [, major, minor, forMachine] = /^manylinux_(\d+)_(\d+)_(.+)$/.exec(tag) ?? [];
    if (forMachine !== undefined)
      return forMachine === machine && Number(major) === glibc[0] && Number(minor) <= glibc[1];
    return tag === `manylinux2014_${machine}` && glibc[0] === 2 && glibc[1] >= 17;
  });
}

/** Whether the URL may be sent to the host: all users of the host would see its credentials. */
export function isPublic(url: string): boolean {
  const { protocol, username, password } = new URL(url);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}
