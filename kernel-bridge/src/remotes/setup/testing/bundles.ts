/** For specs: the bridge as it is copied to hosts, from the sources as they are now, with a small environment beside the real ones. */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

const ROOT = fileURLToPath(new URL('../../../../../', import.meta.url));
export const UV = path.join(ROOT, '.tpulab', 'tools', 'bin', 'uv');

export async function makeBundle(folder: string): Promise<string> {
  await run(process.execPath, [path.join(ROOT, 'scripts', 'package', 'bundle.mjs'), folder]);
  await addTinyEnvironment(folder);
  return folder;
}

/** The same bridge under another version. */
export async function otherVersion(bundle: string, folder: string): Promise<string> {
  await cp(bundle, folder, { recursive: true });
  await changeRecord(folder, () => ({ hash: digest(randomUUID()) }));
  return folder;
}

/** `tiny`: one package without dependencies, no agent, so that it is made in a moment. */
async function addTinyEnvironment(bundle: string): Promise<void> {
  const folder = path.join(bundle, 'environments', 'tiny');
  await mkdir(folder);
  const description = {
    displayName: 'Tiny',
    summary: 'one small package',
    python: '>=3.11,<3.14',
    agent: false,
    diskMiB: 10,
    kernelspec: { argv: ['-c', 'pass', '{connection_file}'], env: {}, envDefaults: {}, debugger: false }
  };
  await writeFile(path.join(folder, 'environment.json'), JSON.stringify(description));
  const lock = await readFile(path.join(bundle, 'environments', 'jax', 'requirements.lock'), 'utf8');
  const cycler = /^cycler==.*\n(?: +--hash.*\n)+/m.exec(lock)?.[0];
  if (cycler === undefined)
    throw new Error('the lock of jax has no cycler any more; take another small package');
  await writeFile(path.join(folder, 'requirements.lock'), cycler);
  await writeFile(
    path.join(folder, 'smoke_test.py'),
    'print(\'{"check": "it starts", "ok": true, "detail": "yes", "remedy": null}\')\n'
  );
}

async function changeRecord(folder: string, change: () => Record<string, string>): Promise<void> {
  const file = path.join(folder, 'payload.json');
  const record = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  await writeFile(file, JSON.stringify({ ...record, ...change() }));
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
