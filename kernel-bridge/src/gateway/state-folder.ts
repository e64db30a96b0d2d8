/** The state folder: its path, its permissions, its owner, and the small files in it that name a running gateway. */
import { randomBytes } from 'node:crypto';
import { chmod, readdir, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { beating } from '@tpulab/platform/process-identity.js';
import { kernelPaths, presenceOfKernel } from '../keeper-protocol/keeper-file.js';
import { LockHeldError, ownerOf, type ProcessLock, takeProcessLock } from '@tpulab/platform/process-lock.js';
import { writeAtomically, writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import { ServeError } from '@tpulab/platform/errors.js';
import { makeFolder, readIfThere } from '@tpulab/platform/missing-files.js';
import { xdgFolder } from '@tpulab/platform/user-folders.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

export const GatewayRecord = Type.Object({
  url: Type.String(),
  pid: Type.Integer({ minimum: 1 }),
  gatewayId: Type.String(),
  startedAt: Type.String(),
  /** Distinguishes the process from a later one with the same pid; earlier versions do not store it. */
  processStart: Type.Optional(Type.String()),
  /** Where the gateway runs; it touches the file while it is alive. Earlier versions do not store this. */
  host: Type.Optional(
    Type.Object({
      name: Type.String(),
      machine: Type.String(),
      boot: Type.String(),
      pidNamespace: Type.String()
    })
  ),
  /** With this key the gateway proves its identity (`gateway-proof.ts`). Absent in the record of an older gateway. */
  proofKey: Type.Optional(Type.String()),
  /** Root of the files that the gateway serves. Absent in the record of an older gateway. */
  rootDir: Type.Optional(Type.String())
});
/** gateway.json: the gateway that serves this folder, or the last one that did so. */
export type GatewayRecord = Static<typeof GatewayRecord>;

/** The requested folder, otherwise `$TPULAB_STATE_DIR`, otherwise the XDG state folder. */
export function stateFolder(requested: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  const named = requested ?? (env['TPULAB_STATE_DIR'] || undefined);
  if (named !== undefined) return path.resolve(named);
  return path.join(xdgFolder('XDG_STATE_HOME', env), 'tpulab');
}

/** Creates the folder, accessible only to this user. */
export async function prepareStateFolder(folder: string): Promise<void> {
  try {
    await makeFolder(path.join(folder, 'kernels'), 0o700);
    await chmod(folder, 0o700);
    await chmod(path.join(folder, 'kernels'), 0o700);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    throw new ServeError(
      'state_dir_unusable',
      `The state folder ${folder} cannot be used (${code}); check its permissions and disk space, or choose another with --state-dir.`,
      { cause: error }
    );
  }
}

/**
 * Ensures one gateway per state folder, on a machine that can see the folder's kernels: claims the lock or throws
 * `state_dir_in_use`. Disposing releases it. @param onLost called if another gateway has taken over the folder while this
 * process stalled
 */
export async function lockStateFolder(folder: string, onLost: () => void): Promise<ProcessLock> {
  const file = path.join(folder, 'gateway.lock');
  try {
    if ((await ownerOf(file)).presence !== 'elsewhere') await refuseForeignKernels(folder);
    return await takeProcessLock(file, { onLost });
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    const { pid, elsewhere } = error.holder;
    throw new ServeError(
      'state_dir_in_use',
      elsewhere === undefined
        ? `A server (pid ${pid}) already serves ${folder}; use it, stop it with "tpulab stop", or choose another folder with --state-dir.`
        : `A server on ${elsewhere} (pid ${pid} there) already serves ${folder}; use it, stop it with "tpulab stop" there, or choose another folder for this machine or container with --state-dir.`
    );
  }
}

/** Kernels outlive their gateway, and a gateway without access to them would lose their sessions. */
async function refuseForeignKernels(folder: string): Promise<void> {
  const kernels = path.join(folder, 'kernels');
  const silent = new Map<string, string>();
  const refusal = (id: string, host: string | null): ServeError =>
    new ServeError(
      'state_dir_in_use',
      `Kernels of ${host} run in ${folder} (${id}); start the server there, shut them down there, or choose another folder for this machine or container with --state-dir.`
    );
  for (const id of await readdir(kernels).catch(() => [])) {
    const { presence, elsewhere } = await presenceOfKernel(path.join(kernels, id));
    if (presence === 'elsewhere') throw refusal(id, elsewhere);
    if (presence === 'silent') silent.set(kernelPaths(path.join(kernels, id)).keeper, elsewhere ?? '');
  }
  for (const file of await beating([...silent.keys()])) {
    throw refusal(path.basename(path.dirname(file)), silent.get(file) ?? null);
  }
}

/** On this machine a port answers or refuses immediately. */
const PROBE_MS = 2_000;

/** Shorter tokens can be guessed, and nothing else prevents guessing: a valid token is never rejected. */
const MIN_TOKEN_LENGTH = 16;

/**
 * The given token, otherwise the token of an earlier gateway (clients that know it continue to work), otherwise a new one.
 * Also a new one when another program listens on the port of an earlier gateway that was killed: its clients may have sent
 * the token there.
 */
export async function chooseToken(folder: string, given: string | undefined): Promise<string> {
  const stored = given === undefined && (await isPortTaken(folder)) ? null : await readToken(folder);
  const token = given ?? stored ?? randomBytes(24).toString('hex');
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new ServeError(
      'token_unusable',
      'The token must be printable ASCII without spaces; choose another.'
    );
  }
  if (given !== undefined && given.length < MIN_TOKEN_LENGTH) {
    throw new ServeError(
      'token_unusable',
      `The token must have at least ${MIN_TOKEN_LENGTH} characters; choose a longer one, or none to get a random one.`
    );
  }
  await writeAtomically(path.join(folder, 'token'), `${token}\n`);
  return token;
}

/** Only called by the owner of the folder's lock, so the gateway of the record has ended. */
async function isPortTaken(folder: string): Promise<boolean> {
  const record = await readGatewayRecord(folder);
  if (record === null || !URL.canParse(record.url)) return false;
  const { protocol, hostname, port } = new URL(record.url);
  if (protocol !== 'http:' || port === '') return false;
  const probe = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), timeout: PROBE_MS });
  return new Promise(resolve => {
    const done = (isTaken: boolean): void => {
      probe.destroy();
      resolve(isTaken);
    };
    probe.once('connect', () => done(true));
    probe.once('error', () => done(false));
    // If this process stalled for that long, the answer has arrived and is read first.
    probe.once('timeout', () => setImmediate(() => done(false)));
  });
}

/** Called when a foreign program may have received the token: the next gateway creates a new one. */
export async function forgetToken(folder: string): Promise<void> {
  await rm(path.join(folder, 'token'), { force: true });
}

export async function readToken(folder: string): Promise<string | null> {
  const text = await readIfThere(path.join(folder, 'token'));
  return text?.trim() || null;
}

export async function writeGatewayRecord(folder: string, record: GatewayRecord): Promise<void> {
  await writeForThisBoot(path.join(folder, 'gateway.json'), `${JSON.stringify(record)}\n`);
}

export async function readGatewayRecord(folder: string): Promise<GatewayRecord | null> {
  const json = jsonIn(await readFile(path.join(folder, 'gateway.json'), 'utf8').catch(() => null));
  return Value.Check(GatewayRecord, json) ? json : null;
}

/** Removes only our own record: another gateway may already have stored its own. */
export async function removeGatewayRecord(folder: string, gatewayId: string): Promise<void> {
  if ((await readGatewayRecord(folder))?.gatewayId === gatewayId) {
    await rm(path.join(folder, 'gateway.json'), { force: true });
  }
}
