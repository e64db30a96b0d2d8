/** Where the wheel of a tool is in the package index that this machine is set up for, and its sha256 from the lock file. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse } from 'smol-toml';
import { runUv } from '../../environments/uv.js';
import { SetupError } from './stage-reporter.js';
import { type Platform, type ToolWheel, uvPlatform } from './host-layout.js';

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

/** Wheels are for any Python; uv only wants to know one. */
const PYTHON = '3.12';

/** @throws SetupError `setup_download_failed` when the index does not answer or has no such wheel */
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
      keptLines: 2000
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

/** By the platform tag of the file name: `…-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`. */
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

/** Whether the host may be told the URL: one with credentials would be seen by all its users. */
export function isPublic(url: string): boolean {
  const { protocol, username, password } = new URL(url);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}
