/**
 * A machine of namespaces: its own processes, mounts and host name, on this machine's files with some of them replaced.
 * Its files are under its folder; the memory of its processes is lost when it is switched off.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findProgram } from './availability.js';

const DEADLINE_MS = 60_000;

export interface MachineOptions {
  /** Contains `home`, `etc`, `opt`, and other added folders. */
  readonly folder: string;
  /** Folder that is its `/home`. */
  readonly homes: string;
  readonly networkNamespace: string;
  readonly hostName: string;
  /** Folders that every user there can read, even below a home of this machine's root. */
  readonly visible: readonly string[];
  /** Missing programs: `node`. */
  readonly hidden: readonly string[];
  /** Path on the machine to the file or folder that is mounted there. */
  readonly mounts: Readonly<Record<string, string>>;
  /** Command lines that end before the services are started. */
  readonly prepare?: readonly string[];
  /** Variables of its first process, beside PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** Command lines that run as long as the machine does. */
  readonly services: readonly string[];
}

export class Machine implements AsyncDisposable {
  readonly #options: MachineOptions;
  #child: ChildProcess | null = null;
  #initPid = 0;

  constructor(options: MachineOptions) {
    this.#options = options;
  }

  /** Resolves when its services have been started. A running machine stays on. */
  async boot(): Promise<void> {
    if (this.isOn) return;
    const { folder, networkNamespace } = this.#options;
    const started = path.join(folder, 'started');
    await rm(started, { force: true });
    const script = path.join(folder, 'init.sh');
    await writeFile(script, this.#init(started));
    const namespaces = ['--mount', '--pid', '--fork', '--uts', '--ipc', '--kill-child', '--mount-proc'];
    const child = spawn(
      'setpriv',
      [
        // It ends with the process that started it, however that process ends.
        '--pdeathsig',
        'KILL',
        'nsenter',
        `--net=/var/run/netns/${networkNamespace}`,
        'unshare',
        ...namespaces,
        '--propagation',
        'private',
        'sh',
        script
      ],
      { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env['PATH'], ...this.#options.env } }
    );
    this.#child = child;
    let words = '';
    child.stderr.on('data', (text: Buffer) => (words = (words + text.toString()).slice(-4000)));
    const deadline = performance.now() + DEADLINE_MS;
    while (!isWritten(started)) {
      if (child.exitCode !== null || performance.now() > deadline) {
        throw new Error(`The stand-in machine does not start: ${words}`);
      }
      await delay(10);
    }
    this.#initPid = Number(
      readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')[0]
    );
  }

  get isOn(): boolean {
    return this.#child !== null;
  }

  /** A path of the machine as this process can open it. */
  at(file: string): string {
    return path.join(`/proc/${this.#initPid}/root`, file);
  }

  /** All its processes are killed together. Its memory is lost, without a notification. Resolves when none is left. */
  async powerOff(): Promise<void> {
    const child = this.#child;
    const initPid = this.#initPid;
    this.#child = null;
    this.#initPid = 0;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    // The first process ends after all others, and the program that made the namespaces ends after it.
    if (initPid > 0) process.kill(initPid, 'SIGKILL');
    else child.kill('SIGKILL');
    await ended;
  }

  /** Runs a shell script there; rejects when it fails. */
  async run(script: string, user = 'root'): Promise<string> {
    const as = user === 'root' ? [] : ['setpriv', '--reuid', user, '--regid', user, '--init-groups'];
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', HOME: `/home/${user}` };
    const args = ['-t', String(this.#initPid), '-m', '-p', '-n', '-u', '-i', ...as, 'sh', '-c', script];
    return new Promise((resolve, reject) => {
      execFile('nsenter', args, { env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
        if (error) reject(new Error(`${script}: ${stderr || error.message}`));
        else resolve(stdout);
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
  }

  /** The script of its first process. Mounts are its own and end with it. */
  #init(started: string): string {
    const { folder, homes, hostName, visible, hidden, mounts, services, prepare = [] } = this.#options;
    const lines = ['set -e', `hostname ${hostName}`];
    const bind = (from: string, to: string): void => void lines.push(`mount --bind '${from}' '${to}'`);
    lines.push('mount -t tmpfs -o mode=755 run /run', 'mkdir -m 755 /run/sshd', 'mkdir -m 700 /run/kept');
    // Paths below a home that others cannot enter, or below /tmp, are moved away, and back when those are the machine's own.
    visible.forEach((at, index) => {
      lines.push(`mkdir /run/kept/${index}`);
      bind(at, `/run/kept/${index}`);
    });
    const putBack = (below: string): void => {
      visible.forEach((at, index) => {
        if (!at.startsWith(below)) return;
        lines.push(`mkdir -p '${at}'`);
        bind(`/run/kept/${index}`, at);
      });
    };
    lines.push('mount -t tmpfs -o mode=755 root /root');
    putBack('/root/');
    bind(`${folder}/opt`, '/opt');
    lines.push('touch /opt/node');
    // For programs that are installed there by hand; they are on no PATH.
    bind(process.execPath, '/opt/node');
    for (const name of hidden) {
      const found = findProgram(name);
      if (found === null) continue;
      bind(`${folder}/nothing`, found);
    }
    for (const file of ['passwd', 'shadow', 'group', 'hosts', 'hostname']) {
      bind(`${folder}/etc/${file}`, `/etc/${file}`);
    }
    if (Object.keys(mounts).some(to => to.startsWith('/dev/'))) lines.push(...ownDevices(folder));
    for (const [to, from] of Object.entries(mounts)) {
      if (to.startsWith('/dev/')) lines.push(`mkdir -p '${to}'`);
      if (to.startsWith('/opt/')) lines.push(`mkdir -p '${to}'`);
      bind(from, to);
    }
    bind(homes, '/home');
    // Opened before its place is hidden by the machine's own /tmp.
    lines.push(`exec 3> '${started}'`, 'mount -t tmpfs -o mode=1777 tmp /tmp');
    putBack('/tmp/');
    lines.push('ip addr add 169.254.169.254/32 dev lo 2> /dev/null || true');
    lines.push(...prepare);
    for (const service of services) lines.push(`${service} &`);
    lines.push('echo on >&3', 'set +e', 'while :; do wait; sleep 1000 & wait $!; done');
    return `${lines.join('\n')}\n`;
  }

  static async layOut(folder: string): Promise<void> {
    for (const name of ['home', 'etc', 'opt']) {
      await mkdir(path.join(folder, name), { recursive: true, mode: 0o755 });
    }
    await writeFile(path.join(folder, 'nothing'), '', { mode: 0o644 });
  }
}

/** A `/dev` in which folders can be made: the devices that every program needs, from this machine's `/dev`. */
function ownDevices(folder: string): string[] {
  const dev = `${folder}/dev`;
  const nodes = ['null', 'zero', 'full', 'random', 'urandom', 'tty'];
  return [
    `mkdir -p ${dev}`,
    `mount -t tmpfs -o mode=755 dev ${dev}`,
    ...nodes.flatMap(node => [`touch ${dev}/${node}`, `mount --bind /dev/${node} ${dev}/${node}`]),
    `mkdir ${dev}/pts ${dev}/shm`,
    `mount --bind /dev/pts ${dev}/pts`,
    `mount -t tmpfs -o mode=1777 shm ${dev}/shm`,
    `ln -s pts/ptmx ${dev}/ptmx`,
    `ln -s /proc/self/fd ${dev}/fd`,
    `ln -s fd/0 ${dev}/stdin; ln -s fd/1 ${dev}/stdout; ln -s fd/2 ${dev}/stderr`,
    `mount --rbind ${dev} /dev`
  ];
}

function isWritten(file: string): boolean {
  try {
    return readFileSync(file, 'utf8') !== '';
  } catch {
    return false;
  }
}
