/** Whether this machine can run a stand-in VM, and the paths of its programs. */
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import path from 'node:path';

/** sshd is not on every user's PATH, and must be started by its full path. */
const FOLDERS = [
  ...(process.env['PATH'] ?? '').split(path.delimiter),
  '/usr/sbin',
  '/sbin',
  '/usr/local/sbin'
];

export function findProgram(name: string): string | null {
  return FOLDERS.map(folder => path.join(folder, name)).find(isExecutable) ?? null;
}

/** The program, for callers that have called `unavailableReason` before. */
export function requireProgram(name: string): string {
  const found = findProgram(name);
  if (found === null) throw new Error(`There is no program ${name}.`);
  return found;
}

let answer: string | null | undefined;

/** The reason; null when it can. */
export function unavailableReason(): string | null {
  return (answer ??= find());
}

function find(): string | null {
  if (process.platform !== 'linux') return 'needs Linux, for namespaces';
  if (process.getuid?.() !== 0) return 'needs root, for namespaces';
  for (const name of ['ip', 'unshare', 'nsenter', 'setpriv', 'mount', 'ssh', 'ssh-keygen', 'sshd']) {
    if (findProgram(name) === null) return `needs the program ${name}`;
  }
  const probe = `tplprobe${process.pid}`;
  try {
    execFileSync('ip', ['netns', 'add', probe], { stdio: 'pipe' });
    try {
      execFileSync(
        'ip',
        ['-n', probe, 'link', 'add', 'name', 'near', 'type', 'veth', 'peer', 'name', 'far'],
        {
          stdio: 'pipe'
        }
      );
      execFileSync('unshare', ['--mount', '--pid', '--fork', '--uts', 'true'], { stdio: 'pipe' });
    } finally {
      execFileSync('ip', ['netns', 'del', probe], { stdio: 'pipe' });
    }
    return null;
  } catch {
    return 'this system does not let root make namespaces';
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
