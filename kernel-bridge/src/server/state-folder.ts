/** The state folder: where it is, its permissions, and the small files in it that name a running gateway. */
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { writeAtomically } from '../processes/write-atomically.js';
import { ServeError } from './server-errors.js';

export const GatewayRecord = Type.Object({
  url: Type.String(),
  pid: Type.Integer({ minimum: 1 }),
  gatewayId: Type.String(),
  startedAt: Type.String()
});
/** gateway.json: the gateway that serves this folder, or did when it was last alive. */
export type GatewayRecord = Static<typeof GatewayRecord>;

/** What is asked for, else `$TPULAB_STATE_DIR`, else the XDG state folder. */
export function stateFolder(asked: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  const named = asked ?? (env['TPULAB_STATE_DIR'] || undefined);
  if (named !== undefined) return path.resolve(named);
  return path.join(env['XDG_STATE_HOME'] || path.join(homedir(), '.local', 'state'), 'tpulab');
}

/** Makes the folder, for this user alone. */
export async function prepareStateFolder(folder: string): Promise<void> {
  try {
    await mkdir(path.join(folder, 'kernels'), { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
    await chmod(path.join(folder, 'kernels'), 0o700);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new ServeError(
      'state_dir_unusable',
      `The state folder ${folder} cannot be used (${code}); check its permissions and the space on its disk, or name another with --state-dir.`,
      { cause: error }
    );
  }
}

/** Shorter ones can be guessed, and nothing else stops guessing: a valid token is never turned away. */
const MIN_TOKEN_LENGTH = 16;

/** The given token, else the one of an earlier gateway (pages that know it go on working), else a new one. */
export async function chooseToken(folder: string, given: string | undefined): Promise<string> {
  const token = given ?? (await readToken(folder)) ?? randomBytes(24).toString('hex');
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new ServeError(
      'token_unusable',
      'The token must be printable ASCII without spaces; choose another.'
    );
  }
  if (given !== undefined && given.length < MIN_TOKEN_LENGTH) {
    throw new ServeError(
      'token_unusable',
      `The token must have at least ${MIN_TOKEN_LENGTH} characters; choose a longer one, or none: then a random one is made.`
    );
  }
  await writeAtomically(path.join(folder, 'token'), `${token}\n`);
  return token;
}

export async function readToken(folder: string): Promise<string | null> {
  const text = await readOrNull(path.join(folder, 'token'));
  return text?.trim() || null;
}

export async function writeGatewayRecord(folder: string, record: GatewayRecord): Promise<void> {
  await writeAtomically(path.join(folder, 'gateway.json'), `${JSON.stringify(record)}\n`);
}

export async function readGatewayRecord(folder: string): Promise<GatewayRecord | null> {
  try {
    const json: unknown = JSON.parse((await readOrNull(path.join(folder, 'gateway.json'))) ?? 'null');
    return Value.Check(GatewayRecord, json) ? json : null;
  } catch {
    return null;
  }
}

/** Only our own record: another gateway may already have put its own there. */
export async function removeGatewayRecord(folder: string, gatewayId: string): Promise<void> {
  if ((await readGatewayRecord(folder))?.gatewayId === gatewayId) {
    await rm(path.join(folder, 'gateway.json'), { force: true });
  }
}

async function readOrNull(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
