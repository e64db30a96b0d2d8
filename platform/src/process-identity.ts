/**
 * Whether a process is still the intended one. A pid alone is not enough: pids are reused, and a signal to the
 * wrong process group would end another user's work.
 *
 * A state folder may be shared by several machines (a home folder on NFS) or containers (one volume). Their processes are
 * not visible from here, and a pid of theirs identifies another process here. So the owner of something in the folder also stores
 * its host, and touches a file every few seconds for as long as it lives.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { open, readFile, readlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

const PS_MS = 5_000;

/** How often an owner touches its file. */
export const HEARTBEAT_MS = 5_000;
/** An owner that is not visible counts as running for this long after its last heartbeat. Clocks of two machines may differ by less. */
export const FRESH_MS = 60_000;
/** Longer than two heartbeats: a file that is unchanged for this long is not touched by any process, whatever the clocks show. */
const WATCH_MS = 12_000;
const WATCH_RETRY_MS = 500;
/** The namespace of a machine's processes, and of every container without its own; the same on every Linux. */
const FIRST_PID_NAMESPACE = 'pid:[4026531836]';

export interface ProcessHost {
  /** A name to show to users. */
  readonly name: string;
  /** Survives a reboot; derived from the machine's id, '' if it has none. */
  readonly machine: string;
  /** Differs after a reboot; '' where the system has no such id. */
  readonly boot: string;
  /** Processes see each other within one namespace; '' if the system has none. */
  readonly pidNamespace: string;
}

/** The data that an owner has stored about itself. Older programs did not store the host. */
interface ProcessRecord {
  readonly pid: number;
  readonly start: string | null;
  readonly host?: ProcessHost | undefined;
}

/**
 * - `here`: it runs, and is visible from here.
 * - `ended`: it has certainly ended.
 * - `elsewhere`: it belongs to another machine or container, and its heartbeat is fresh.
 * - `silent`: it belongs to another machine or container, and its heartbeat has stopped; it may have ended, or hang.
 */
export type Presence = 'here' | 'ended' | 'elsewhere' | 'silent';

let known: Promise<ProcessHost> | undefined;

export function thisHost(): Promise<ProcessHost> {
  return (known ??= describeHost());
}

/** @param beatFile the file that the process touches while it lives */
export async function presenceOf({ pid, start, host }: ProcessRecord, beatFile: string): Promise<Presence> {
  const here = await thisHost();
  if (host === undefined || isVisible(host, here))
    return (await isSameProcess(pid, start)) ? 'here' : 'ended';
  const beatMs = await beatOf(beatFile);
  const isFresh = beatMs !== null && Math.abs(Date.now() - beatMs) <= FRESH_MS;
  // A machine may reboot that fast, and two machines may look the same: only watching the file shows whether it is still touched.
  if (isEarlierBoot(host, here)) return isFresh ? 'silent' : 'ended';
  return isFresh ? 'elsewhere' : 'silent';
}

/** A name to show to users: "login2". */
export async function nameOf(host: ProcessHost | undefined): Promise<string> {
  const { boot } = await thisHost();
  if (host === undefined) return 'this machine';
  return host.boot === boot && boot !== ''
    ? `${host.name} (in another container of this machine)`
    : host.name;
}

/** Belongs to another machine or container. */
export function isForeign(presence: Presence): presence is 'elsewhere' | 'silent' {
  return presence === 'elsewhere' || presence === 'silent';
}

/** Whether processes of that host are visible from here. */
function isVisible(host: ProcessHost, here: ProcessHost): boolean {
  // A boot id belongs to one machine. Without one (macOS) the machine decides, and start times are dates.
  return host.boot === '' && here.boot === ''
    ? host.machine === here.machine && (here.machine !== '' || host.name === here.name)
    : host.boot === here.boot && host.pidNamespace === here.pidNamespace;
}

/** The same machine before a reboot. Container images may contain a machine id, so in containers the name counts too. */
function isEarlierBoot(host: ProcessHost, here: ProcessHost): boolean {
  const areMachines = [host, here].every(each => each.pidNamespace === FIRST_PID_NAMESPACE);
  return (
    host.machine !== '' &&
    host.machine === here.machine &&
    host.boot !== here.boot &&
    (areMachines || host.name === here.name)
  );
}

/** Touches the files; a missing one is left out. */
export async function beat(files: Iterable<string>): Promise<void> {
  const now = new Date();
  for (const file of files) await utimes(file, now, now).catch(() => undefined);
}

/** The files that are touched while they are watched, whatever their times are: a clock may be wrong by years. */
export async function beating(files: readonly string[], watchMs = WATCH_MS): Promise<string[]> {
  const before = await Promise.all(files.map(beatOf));
  const moved = new Set<string>();
  for (const end = performance.now() + watchMs; performance.now() < end && moved.size < files.length;) {
    await delay(Math.min(WATCH_RETRY_MS, watchMs));
    const now = await Promise.all(files.map(beatOf));
    files.forEach((file, index) => {
      if (now[index] !== before[index]) moved.add(file);
    });
  }
  return [...moved];
}

/** Unix milliseconds of the last heartbeat. Opened, because network file systems refresh their cache only then. */
async function beatOf(file: string): Promise<number | null> {
  try {
    await using handle = await open(file, 'r');
    return (await handle.stat()).mtimeMs;
  } catch {
    return null;
  }
}

async function describeHost(): Promise<ProcessHost> {
  const machine = await machineId();
  return {
    name: hostname(),
    // The id itself must stay confidential (machine-id(5)).
    machine:
      machine === '' ? '' : createHash('sha256').update(`tpulab ${machine}`).digest('hex').slice(0, 32),
    boot: await bootId(),
    pidNamespace: process.platform === 'linux' ? await readlink('/proc/self/ns/pid').catch(() => '') : ''
  };
}

async function machineId(): Promise<string> {
  if (process.platform === 'darwin') {
    const found = await run('/usr/sbin/ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice'], {
      timeout: PS_MS
    }).catch(() => null);
    return /"IOPlatformUUID" = "([^"]+)"/.exec(found?.stdout ?? '')?.[1] ?? '';
  }
  for (const file of ['/etc/machine-id', '/var/lib/dbus/machine-id']) {
    const id = (await readFile(file, 'utf8').catch(() => '')).trim();
    if (/^[0-9a-f]{32}$/.test(id)) return id;
  }
  return '';
}

/** A mark that differs between two processes with the same pid; null when there is no such process. */
export async function processStart(pid: number): Promise<string | null> {
  if (process.platform === 'linux') {
    try {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
      // The command name may contain spaces and brackets; fields are counted after its last bracket. 22 is starttime.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return fields[0] === 'Z' ? null : `${await bootId()}/${fields[19] ?? ''}`;
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null;
      throw error;
    }
  }
  try {
    const { stdout } = await run('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      timeout: PS_MS,
      env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' }
    });
    const line = stdout.trim();
    return line === '' || line.startsWith('Z') ? null : line.slice(line.search(/\s/)).trim();
  } catch (error) {
    if ((error as { code?: unknown }).code === 1) {
      return null; // ps found no such process
    }
    throw error;
  }
}

/** Whether the process that had `start` under this pid still runs. */
export async function isSameProcess(pid: number, start: string | null): Promise<boolean> {
  const now = await processStart(pid);
  return now !== null && now === start;
}

/** Whether a process with this pid exists to which we may send signals; that is so for each process that we started. */
export function canSignal(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Start times count from the boot; without the boot, processes of two boots could look the same. */
async function bootId(): Promise<string> {
  if (process.platform !== 'linux') return '';
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}
