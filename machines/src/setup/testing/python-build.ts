/**
 * For specs: a build of Python that uv can download, made from a Python of this machine, because the real builds are not on
 * a package index and may be unreachable. uv fetches, unpacks and uses it like the real ones.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, realpath, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { UV } from './bundles.js';
import { pyenvVersions } from './local-shell.js';

const run = promisify(execFile);

/** Variables that make uv find a build of the Python in `prefix`. */
export async function pythonBuild(prefix: string, folder: string): Promise<Readonly<Record<string, string>>> {
  const { stdout } = await run(path.join(prefix, 'bin', 'python3'), [
    '-c',
    'import sys; print(*sys.version_info[:3], sep=".")'
  ]);
  const version = stdout.trim();
  await mkdir(folder, { recursive: true });
  await symlink(prefix, path.join(folder, 'python')).catch(() => undefined);
  const archive = path.join(folder, 'python.tar.gz');
  const left = [
    'test',
    'tests',
    '__pycache__',
    'config-3.12-*',
    'idlelib',
    'tkinter',
    'site-packages/*',
    '*.a'
  ];
  await run('tar', [
    ...['-chf', archive, '--use-compress-program', 'gzip -1'],
    ...left.flatMap(name => ['--exclude', name]),
    ...['-C', folder, 'python/bin', 'python/lib']
  ]);
  const [major, minor, patch] = version.split('.').map(Number);
  const list = {
    [`cpython-${version}-linux-x86_64-gnu`]: {
      ...{
        name: 'cpython',
        arch: { family: 'x86_64', variant: null },
        os: 'linux',
        libc: 'gnu',
        major,
        minor,
        patch
      },
      ...{ prerelease: '', url: `file://${archive}`, sha256: null, variant: null, build: '20260101' }
    }
  };
  const file = path.join(folder, 'downloads.json');
  await writeFile(file, JSON.stringify(list));
  return { UV_PYTHON_DOWNLOADS_JSON_URL: file };
}

/** The folder of a self-contained, relocatable Python 3.12: all its files are below one prefix. null: this machine has none. */
export async function wholePython(): Promise<string | null> {
  const versions = pyenvVersions();
  const own = (await readdir(versions).catch((): string[] => [])).filter(name => name.startsWith('3.12.'));
  for (const name of own.sort()) {
    if (existsSync(path.join(versions, name, 'bin', 'python3'))) return path.join(versions, name);
  }
  const found = await run(UV, ['python', 'find', '--no-project', '--no-python-downloads', '3.12']).catch(
    () => null
  );
  if (found === null) return null;
  const { stdout } = await run(found.stdout.trim(), ['-c', 'import sys; print(sys.base_prefix)']);
  const prefix = await realpath(stdout.trim());
  return prefix === '/usr' || !existsSync(path.join(prefix, 'bin', 'python3')) ? null : prefix;
}
