/**
 * The running gateways of this user: a file for each, named after its id, that names its state folder. So a command finds
 * the gateway of `npm start`, of a Jupyter server or of `tpulab serve`, wherever its state is stored. A file is trusted
 * only after the state folder and the process have been checked; until then nothing is sent to any program.
 */
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { makeFolder } from '@tpulab/platform/missing-files.js';
import { hostname, userInfo } from 'node:os';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import {
  canSignal,
  type Presence,
  presenceOf,
  processStart,
  thisHost
} from '@tpulab/platform/process-identity.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import { type GatewayRecord, readGatewayRecord, stateFolder } from './state-folder.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

export interface RunningGatewayFolder {
  readonly stateDir: string;
  readonly record: GatewayRecord;
}

/** Independent of where a gateway stores its state: `gateways` in the user's default state folder. */
export function registryFolder(env: NodeJS.ProcessEnv = process.env): string {
  return path.join(stateFolder(undefined, { ...env, TPULAB_STATE_DIR: undefined }), 'gateways');
}

/** Adds a gateway to the list until it is disposed of. */
export async function enterGateway(
  stateDir: string,
  gatewayId: string,
  registry: string = registryFolder()
): Promise<AsyncDisposable> {
  await makeFolder(registry, 0o700);
  const file = path.join(registry, `${gatewayId}.json`);
  await writeForThisBoot(
    file,
    `${JSON.stringify({ stateDir, host: hostname(), place: await linkOfGateway() })}\n`
  );
  return { [Symbol.asyncDispose]: () => rm(file, { force: true }) };
}

/** The running gateways, the newest first. Entries of killed gateways are removed. */
export async function runningGateways(registry: string = registryFolder()): Promise<RunningGatewayFolder[]> {
  if (!(await isOurs(registry))) return [];
  const found: RunningGatewayFolder[] = [];
  const here = await linkOfGateway();
  for (const name of await readdir(registry)) {
    const file = path.join(registry, name);
    if (!name.endsWith('.json')) continue;
    const entry = await entryIn(file);
    // A home folder may be shared by several machines or containers, whose processes are not visible from here.
    if (entry !== null && (entry.host !== hostname() || (entry.place ?? here) !== here)) continue;
    const running = entry === null ? null : await check(entry.stateDir, path.basename(name, '.json'));
    if (running === null) await rm(file, { force: true });
    else found.push(running);
  }
  return found.sort((a, b) => b.record.startedAt.localeCompare(a.record.startedAt));
}

async function check(stateDir: string, gatewayId: string): Promise<RunningGatewayFolder | null> {
  if (!(await isOurs(stateDir))) return null;
  const record = await readGatewayRecord(stateDir);
  // Another gateway may have claimed the folder, and another process the pid.
  if (record?.gatewayId !== gatewayId || (await presenceOfGateway(stateDir, record)) !== 'here') return null;
  return { stateDir, record };
}

/**
 * An id that is the same for processes that can see each other, and changes with each boot: an entry of an earlier boot
 * belongs to a gateway that has ended.
 */
async function linkOfGateway(): Promise<string> {
  const { machine, pidNamespace } = await thisHost();
  return `${machine} ${pidNamespace}`;
}

/** Whether the process of a record is still its writer; a process of an earlier version is identified by its pid alone. */
export async function presenceOfGateway(stateDir: string, record: GatewayRecord): Promise<Presence> {
  const { pid, processStart: start, host } = record;
  // A process of another user cannot be this user's gateway, and a zombie has ended.
  if (start === undefined) return canSignal(pid) && (await processStart(pid)) !== null ? 'here' : 'ended';
  return presenceOf({ pid, start, host }, path.join(stateDir, 'gateway.json'));
}

const Entry = Type.Object({
  stateDir: Type.String({ minLength: 1 }),
  host: Type.String(),
  place: Type.Optional(Type.String())
});

/** Null if another user could have written the file, or if it is damaged. */
async function entryIn(file: string): Promise<Static<typeof Entry> | null> {
  if (!(await isOurs(file))) return null;
  const entry = jsonIn(await readFile(file, 'utf8').catch(() => null));
  return Value.Check(Entry, entry) && path.isAbsolute(entry.stateDir) ? entry : null;
}

/** Whether the path belongs to this user, and no other user can write it. */
async function isOurs(place: string): Promise<boolean> {
  const found = await stat(place).catch(() => null);
  return found !== null && found.uid === userInfo().uid && (found.mode & 0o022) === 0;
}
