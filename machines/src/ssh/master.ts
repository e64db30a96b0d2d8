/** One authenticated ssh connection to a host. Programs and forwardings use it without further prompts. */
import { deadline } from '@tpulab/platform/waiting.js';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { RemoteProblem } from '../remote-error.js';
import { masterArguments, socketForward, sshEnvironment, SshProcess, viaMaster } from './ssh-process.js';
import { explainSsh, isRefusal, jumpsInCircle, lostProblem } from './explain.js';
import type { SshTarget } from './ssh-config.js';

const POLL_MS = 25;
/** Limit for requests without a prompt, which need only the control socket of our own process and one round trip. */
const REQUEST_MS = 20_000;
const CONFIG_MS = 5_000;

export interface MasterOptions {
  /** `ssh`, or the path of another OpenSSH. */
  readonly program: string;
  readonly target: SshTarget;
  /** A short path: ssh appends 17 bytes while it creates the socket. */
  readonly controlPath: string;
  /** Variables that direct ssh's prompts to us; null: ssh fails instead of prompting. */
  readonly askpass: Readonly<Record<string, string>> | null;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export class SshMaster implements AsyncDisposable {
  /** Resolves with the reason after the connection has ended. */
  readonly lost: Promise<RemoteProblem>;

  private constructor(
    private readonly process: SshProcess,
    private readonly options: MasterOptions
  ) {
    this.lost = process.ended.then(({ code }) => lostProblem(options.target, process.errors, code));
  }

  /** Resolves after the login. */
  static async open(options: MasterOptions): Promise<SshMaster> {
    const { program, target, controlPath, askpass, log, signal } = options;
    signal.throwIfAborted();
    await endStale(program, controlPath);
    const configured = await configurationOf(program, target);
    await refuseJumpCircle(program, target, configured);
    const isProxied = /^proxy(command|jump) (?!none$)/m.test(configured);
    const ssh = await SshProcess.start({
      program,
      args: masterArguments(target, controlPath, {
        mayPrompt: askpass !== null,
        isProxied,
        mayFork: /^forkafterauthentication /m.test(configured)
      }),
      env: sshEnvironment(askpass ?? {}),
      onErrorLine: line => log(`ssh: ${line}`)
    });
    ssh.child.stdin.end();
    ssh.child.stdout.resume();
    try {
      // The socket appears only after the login.
      while (!existsSync(controlPath)) {
        signal.throwIfAborted();
        if (ssh.isOver) {
          const { code } = await ssh.ended;
          throw explainSsh(target, ssh.errors, code, configured);
        }
        await wait(POLL_MS);
      }
      return new SshMaster(ssh, options);
    } catch (error) {
      await ssh.end();
      throw error;
    }
  }

  get controlPath(): string {
    return this.options.controlPath;
  }

  get isOver(): boolean {
    return this.process.isOver;
  }

  /** How often sshd has refused a connection: it accepts a forwarding, but may refuse its use. */
  get refusals(): number {
    return this.process.errors.filter(isRefusal).length;
  }

  /** Forwards connections from a local unix socket to a socket on the host, or to `127.0.0.1:PORT` there. */
  async forward(localPath: string, remotePath: string, signal: AbortSignal): Promise<void> {
    await rm(localPath, { force: true });
    await this.#request(
      ['-O', 'forward', ...socketForward(localPath, remotePath)],
      signal,
      `The socket ${remotePath} cannot be forwarded`
    );
  }

  async cancelForward(localPath: string, remotePath: string, signal: AbortSignal): Promise<void> {
    if (!this.isOver) {
      await this.#request(
        ['-O', 'cancel', ...socketForward(localPath, remotePath)],
        signal,
        'A forwarding cannot be ended'
      ).catch(() => undefined);
    }
    await rm(localPath, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process.end();
    await rm(this.controlPath, { force: true });
  }

  async #request(args: readonly string[], signal: AbortSignal, what: string): Promise<void> {
    const { program, controlPath, log } = this.options;
    const ssh = await SshProcess.start({
      program,
      args: viaMaster(controlPath, args),
      onErrorLine: line => log(`ssh: ${line}`)
    });
    ssh.child.stdin.end();
    ssh.child.stdout.resume();
    using within = deadline(REQUEST_MS, signal);
    const limit = within.signal;
    const end = (): void => void ssh.end();
    limit.addEventListener('abort', end, { once: true });
    if (limit.aborted) end();
    const { code } = await ssh.ended;
    limit.removeEventListener('abort', end);
    signal.throwIfAborted();
    if (code !== 0) {
      const reason = ssh.errors.at(-1) ?? (limit.aborted ? 'no answer' : `exit code ${code}`);
      throw new RemoteProblem('remote_forward_failed', `${what} (${reason}); its sshd may not allow it.`);
    }
  }
}

/** A killed gateway left its connection open, with a socket under the name that is now ours. */
async function endStale(program: string, controlPath: string): Promise<void> {
  if (!existsSync(controlPath)) return;
  const ssh = await SshProcess.start({ program, args: viaMaster(controlPath, ['-O', 'exit']) });
  ssh.child.stdin.end();
  ssh.child.stdout.resume();
  const timer = setTimeout(() => void ssh.end(), REQUEST_MS);
  await ssh.ended;
  clearTimeout(timer);
  await rm(controlPath, { force: true });
}

/** ssh's own configuration of a target, one keyword and value per line. Nothing is sent over the network. */
async function configurationOf(program: string, { destination, options }: SshTarget): Promise<string> {
  // Without -N, ssh refuses a configuration that sends it into the background (ForkAfterAuthentication).
  const args = ['-N', '-G', ...options, '--', destination];
  const env = sshEnvironment();
  return promisify(execFile)(program, args, { timeout: CONFIG_MS, env }).then(
    ({ stdout }) => stdout,
    // ssh is too old or missing, which connecting reports.
    () => ''
  );
}

/** More jump hosts than people chain. The names may also grow from one to the next, so that none repeats. */
const MAX_JUMPS = 10;

/**
 * OpenSSH only notices a host that is its own jump host under the same address. In any other circle each ssh starts the
 * next one, endlessly.
 */
async function refuseJumpCircle(
  program: string,
  { destination, options }: SshTarget,
  configured: string
): Promise<void> {
  const at = options.indexOf('-F');
  const file = at < 0 ? [] : options.slice(at, at + 2);
  const path = [destination];
  for (let next = firstJump(configured); next !== null;) {
    const isCircle = path.includes(next);
    path.push(next);
    if (isCircle || path.length > MAX_JUMPS) throw jumpsInCircle(path);
    const hop = /:\d+$/.test(next) && !next.startsWith('ssh://') ? `ssh://${next}` : next;
    next = firstJump(await configurationOf(program, { destination: hop, options: file }));
  }
}

/** The host that ssh connects to first, for a target with this configuration; null: no jump host. */
function firstJump(configured: string): string | null {
  return /^proxyjump (?!none$)([^\s,]+)/m.exec(configured)?.[1] ?? null;
}
