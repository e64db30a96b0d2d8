/** Which process a pid means. A pid alone is reused; together with the start time it is not. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Text that stays the same for the life of a process; null when there is no such process. */
export async function processStart(pid: number): Promise<string | null> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it lives, and belongs to somebody else.
    if (!(error instanceof Error && 'code' in error && error.code === 'EPERM')) return null;
  }
  if (process.platform === 'linux') return linuxStart(pid);
  try {
    const { stdout } = await run('ps', ['-o', 'lstart=', '-p', String(pid)]);
    return stdout.trim() === '' ? null : stdout.trim();
  } catch {
    return null;
  }
}

export async function isSameProcess(pid: number, start: string): Promise<boolean> {
  return (await processStart(pid)) === start;
}

/** Field 22 of /proc/PID/stat, in clock ticks after boot. The name in field 2 may contain spaces and brackets. */
async function linuxStart(pid: number): Promise<string | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not noticed.
    return fields[0] === 'Z' ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
}
