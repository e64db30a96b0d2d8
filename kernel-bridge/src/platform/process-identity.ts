/**
 * Whether a process is still the one that was meant. A pid alone is not enough: pids are used again, and a signal to the
 * wrong process group would end somebody else's work.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

const PS_MS = 5_000;

/** Differs between two processes that have had the same pid; null when there is no such process. */
export async function processStart(pid: number): Promise<string | null> {
  if (process.platform === 'linux') {
    try {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
      // The command name may hold spaces and brackets; fields are counted after its last bracket. 22 is starttime.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return fields[0] === 'Z' ? null : `${await bootId()}/${fields[19] ?? ''}`;
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) {
        return null;
      }
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
      return null; // how ps says that it found none
    }
    throw error;
  }
}

/** Whether the process that had `start` under this pid still runs. */
export async function isSameProcess(pid: number, start: string | null): Promise<boolean> {
  const now = await processStart(pid);
  return now !== null && now === start;
}

/** Whether there is a process with this pid that we may send signals to, as we may to each that we started. */
export function canSignal(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Start times count from the boot, so equal ones of two boots would otherwise look alike. */
async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}
