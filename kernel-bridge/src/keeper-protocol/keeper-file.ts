/** `keeper.json` and `launch.json` in a kernel's folder, related file names, and the owner of the folder. */
import { readdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import {
  isForeign,
  isSameProcess,
  nameOf,
  type Presence,
  presenceOf,
  thisHost
} from '@tpulab/platform/process-identity.js';
import { ownerOf } from '@tpulab/platform/process-lock.js';
import {
  integer,
  isShaped,
  list,
  object,
  oneOf,
  orNull,
  record,
  type Shaped,
  text,
  truth
} from '@tpulab/platform/shape.js';
import { writeForThisBoot } from '@tpulab/platform/write-atomically.js';
import type { LaunchDescription } from './contract.js';
import { KeeperError } from './keeper-error.js';
import { readIfThere } from '@tpulab/platform/missing-files.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

export function kernelPaths(kernelDir: string) {
  const file = (name: string): string => join(kernelDir, name);
  return {
    launch: file('launch.json'),
    keeper: file('keeper.json'),
    /** Locked by the keeper for as long as it lives. */
    lock: file('keeper.lock'),
    connection: file('connection.json'),
    keeperLog: file('keeper.log'),
    kernelLog: file('kernel.log'),
    journal: file('journal')
  };
}

/** The data by which a gateway finds a keeper, and distinguishes it from another process with the same pid. */
const KeeperRecord = object(
  {
    kernelId: text(),
    pid: integer({ min: 1 }),
    /** `processStart` of the keeper. */
    processStart: orNull(text()),
    kernelPid: orNull(integer({ min: 1 })),
    kernelProcessStart: orNull(text()),
    startedAt: text(),
    socketPath: text()
  },
  /** Keepers of earlier versions did not write this. A keeper touches the file while it is alive. */
  { host: object({ name: text(), machine: text(), boot: text(), pidNamespace: text() }) }
);
export type KeeperRecord = Shaped<typeof KeeperRecord>;

const Launch = object(
  {
    kernelId: text({ min: 1 }),
    specName: text(),
    displayName: text(),
    argv: list(text(), { min: 1 }),
    resourceDir: orNull(text()),
    env: record(text()),
    cwd: text({ min: 1 }),
    interruptMode: oneOf('signal', 'message'),
    bestEffort: truth,
    runDir: text({ min: 1 }),
    restartLimit: integer({ min: 0 }),
    shutdownWaitMs: integer({ min: 0 })
  },
  { journalBytes: integer({ min: 1 }) }
);

/** Null if there is no such file, or it is incomplete. */
export async function readKeeperRecord(kernelDir: string): Promise<KeeperRecord | null> {
  const value = jsonIn(await readIfThere(kernelPaths(kernelDir).keeper));
  return isShaped(KeeperRecord, value) ? value : null;
}

/** Whether a kernel runs, as far as visible from here, and who owns it. */
interface KernelPresence {
  /** `here`: keeper or kernel runs; `ended`: neither does; otherwise another machine or container owns it. */
  readonly presence: Presence;
  /** Name of the machine or container, to show to users; null if it is this one. */
  readonly elsewhere: string | null;
  readonly record: KeeperRecord | null;
}

/** A kernel without a keeper counts: it may be adopted by a new one. */
export async function presenceOfKernel(kernelDir: string): Promise<KernelPresence> {
  const { keeper, lock } = kernelPaths(kernelDir);
  const record = await readKeeperRecord(kernelDir);
  if (record === null) {
    // A keeper claims its lock before it writes its record.
    const { presence, holder } = await ownerOf(lock);
    return { presence, elsewhere: holder?.elsewhere ?? null, record };
  }
  const { pid, processStart: start, host, kernelPid, kernelProcessStart } = record;
  let presence = await presenceOf({ pid, start, host }, keeper);
  if (isForeign(presence) && host?.boot === (await thisHost()).boot && (await hasNoListener(record))) {
    // The heartbeat is very recent: the sockets in a copy of the folder would refuse connections, too.
    presence = presence === 'silent' ? 'ended' : 'silent';
  }
  if (isForeign(presence)) return { presence, elsewhere: await nameOf(host), record };
  // The kernel can be checked only if a pid of the record identifies a process here.
  const isOrphaned =
    presence === 'ended' && kernelPid !== null && (await isSameProcess(kernelPid, kernelProcessStart));
  return { presence: isOrphaned ? 'here' : presence, elsewhere: null, record };
}

/**
 * For a container on this machine, whose processes are not visible: sockets belong to the machine, so if all sockets of
 * keeper and kernel refuse connections, both have ended.
 */
async function hasNoListener({ socketPath }: KeeperRecord): Promise<boolean> {
  const folder = dirname(socketPath);
  const sockets = (await readdir(folder, { withFileTypes: true }).catch(() => [])).filter(each =>
    each.isSocket()
  );
  if (!sockets.some(({ name }) => join(folder, name) === socketPath)) return false;
  const refused = await Promise.all(sockets.map(({ name }) => refuses(join(folder, name))));
  return refused.every(Boolean);
}

function refuses(path: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ path, timeout: 1_000 });
    const done = (isRefused: boolean): void => {
      socket.destroy();
      resolve(isRefused);
    };
    socket.once('connect', () => done(false));
    socket.once('timeout', () => done(false));
    socket.once('error', error => done((error as NodeJS.ErrnoException).code === 'ECONNREFUSED'));
  });
}

export async function writeKeeperRecord(kernelDir: string, record: KeeperRecord): Promise<void> {
  await writeForThisBoot(kernelPaths(kernelDir).keeper, record);
}

export async function readLaunch(kernelDir: string): Promise<LaunchDescription> {
  const file = kernelPaths(kernelDir).launch;
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new KeeperError('launch_invalid', `${file} is not valid JSON; start the kernel again.`, {
      cause
    });
  }
  if (!isShaped(Launch, value)) {
    throw new KeeperError('launch_invalid', `${file} does not describe a kernel: ${Launch.fault(value)}.`);
  }
  return value;
}
