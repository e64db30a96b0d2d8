/** The files that are copied to a host: the bridge as one folder that needs only Node (made by `npm run package`). */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import { xdgFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { PACKAGE_FOLDER } from '../environments/locations.js';
import { runProgram } from '../environments/run-program.js';
import { SetupError } from './stage-reporter.js';
import { sha256Of } from '../ssh/ssh-shell.js';

type Env = Readonly<Record<string, string | undefined>>;

const RECORD = 'payload.json';

const PayloadRecord = Type.Object({
  format: Type.Literal(1),
  version: Type.String(),
  hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  environmentsHash: Type.String({ pattern: '^[0-9a-f]{64}$' })
});
type PayloadRecord = Static<typeof PayloadRecord>;

export interface Payload extends PayloadRecord {
  readonly folder: string;
  /** `0.1.0-1a2b3c4d5e6f`: the name of its folder on a host. */
  readonly name: string;
}

interface Archive {
  readonly file: string;
  readonly sha256: string;
}

/** Local cache for files that are made or fetched for hosts. */
export function setupCache(env: Env = process.env): string {
  return path.join(xdgFolder('XDG_CACHE_HOME', env), 'tpulab', 'setup');
}

/** @param folder of the bundle; by default the bundle of this program, otherwise the checkout's. @throws SetupError */
export async function readPayload(folder?: string, env: Env = process.env): Promise<Payload> {
  const candidates = [
    folder,
    env['TPULAB_PAYLOAD'],
    PACKAGE_FOLDER,
    path.resolve(PACKAGE_FOLDER, '..', '.tpulab', 'bridge')
  ].flatMap(candidate => candidate || []);
  const found = candidates.find(candidate => existsSync(path.join(candidate, RECORD)));
  if (found === undefined) {
    throw new SetupError(
      'setup_payload_missing',
      'The server that would be copied to the host is not built; run "npm run package" in the checkout, or install the wheel of tpulab.',
      { command: 'npm run package' }
    );
  }
  const record: unknown = JSON.parse(await readFile(path.join(found, RECORD), 'utf8'));
  if (!Value.Check(PayloadRecord, record)) {
    throw new SetupError(
      'setup_payload_missing',
      `${path.join(found, RECORD)} is garbled; make the bundle again with "npm run package".`
    );
  }
  return { ...record, folder: found, name: `${record.version}-${record.hash.slice(0, 12)}` };
}

/** The bundle as a compressed archive; made once for each content. @throws SetupError */
export async function archiveOf(payload: Payload, cache: string, signal: AbortSignal): Promise<Archive> {
  const file = path.join(cache, `bridge-${payload.name}.tar.gz`);
  if (!existsSync(file)) {
    await makeFolder(cache, 0o700);
    const building = await mkdtemp(path.join(cache, '.building-'));
    try {
      const made = path.join(building, 'bridge.tar.gz');
      await tar(payload.folder, made, signal);
      await rename(made, file);
    } finally {
      await rm(building, { recursive: true, force: true });
    }
  }
  return { file, sha256: await sha256Of(file) };
}

/** Runs the system's tar: every system with ssh has one. */
export async function tar(folder: string, file: string, signal: AbortSignal): Promise<void> {
  const { exitCode, stderr } = await runProgram({
    command: 'tar',
    args: ['-czf', file, '-C', folder, '.'],
    // Otherwise macOS adds its own files to the archive.
    env: { ...process.env, COPYFILE_DISABLE: '1' },
    signal,
    timeoutMs: 600_000
  });
  signal.throwIfAborted();
  if (exitCode === 0) return;
  throw new SetupError(
    'setup_payload_missing',
    `${folder} could not be packed: ${stderr.slice(-2).join(' ') || 'tar failed'}.`
  );
}
