/** Runs the user's command for each notice: one at a time, at most ten in ten minutes, without waiting for it. */
import { spawn } from 'node:child_process';
import type { Logger } from 'pino';
import { isWithheld } from '../kernels/kernel-env.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import type { Notice } from '../telemetry/notices.js';

interface NotifyOptions {
  /** Run by `/bin/sh`. Names from programs reach it only as variables. */
  readonly command: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  readonly timeoutMs?: number;
  readonly now?: () => number;
}

export const MAX_NOTICES_PER_WINDOW = 10;
export const WINDOW_MS = 600_000;
const TIMEOUT_MS = 30_000;
const TEXT_CHARACTERS = 500;

export class NotifyCommand implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #env: Record<string, string | undefined>;
  #queue: Notice[] = [];
  #started: number[] = [];
  /** How many notices were omitted since the newest one that was sent. */
  #left = 0;
  #running: Promise<void> | null = null;

  constructor(private readonly options: NotifyOptions) {
    // Keys to any server are withheld: a command that notifies people needs none.
    const passed = ([name]: [string, unknown]): boolean => !isWithheld(name) && !name.startsWith('TPULAB_');
    this.#env = Object.fromEntries(Object.entries(options.env).filter(passed));
  }

  /**
   * Returns immediately. A notice beyond ten in ten minutes is only counted, and the next one reports how many were
   * omitted.
   */
  send(notice: Notice): void {
    const now = (this.options.now ?? Date.now)();
    this.#started = this.#started.filter(at => at > now - WINDOW_MS);
    if (this.#started.length >= MAX_NOTICES_PER_WINDOW) {
      this.#left += 1;
      this.options.log.warn(
        { kind: notice.kind, leftOut: this.#left },
        'a notice was left out; there are too many'
      );
      return;
    }
    this.#started.push(now);
    const left = this.#left === 0 ? '' : ` (${this.#left} other notices were left out)`;
    this.#left = 0;
    this.#queue.push({ ...notice, text: notice.text + left });
    this.#running ??= this.#drain().finally(() => (this.#running = null));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#queue = [];
    this.#stop.abort();
    await this.#running;
  }

  async #drain(): Promise<void> {
    for (let notice = this.#queue.shift(); notice; notice = this.#queue.shift()) await this.#run(notice);
  }

  async #run({ kind, kernelId, document, run, text }: Notice): Promise<void> {
    const { command, log, timeoutMs = TIMEOUT_MS } = this.options;
    const facts = {
      KIND: kind,
      TEXT: text,
      KERNEL: kernelId,
      NOTEBOOK: document,
      RUN: run
    };
    const env: Record<string, string | undefined> = { ...this.#env };
    for (const [name, value] of Object.entries(facts))
      if (value !== null) env[`TPULAB_NOTICE_${name}`] = plainText(value, TEXT_CHARACTERS);
    const { exitCode, error } = await endOf(command, env, timeoutMs, this.#stop.signal);
    if (exitCode !== 0 && !this.#stop.signal.aborted)
      log.warn({ kind, exitCode, err: error }, 'the notify command failed');
  }
}

/** Never rejects. Its output is discarded, so that a program that it leaves behind cannot delay its end. */
function endOf(
  command: string,
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
  signal: AbortSignal
): Promise<{ readonly exitCode: number | null; readonly error?: unknown }> {
  return new Promise(resolve => {
    const child = spawn('/bin/sh', ['-c', command], { env, stdio: 'ignore', detached: true });
    const kill = (): void => {
      // Kills the whole process group, including programs that the command has started.
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has already ended.
      }
    };
    const timer = setTimeout(kill, timeoutMs);
    signal.addEventListener('abort', kill);
    const end = (exitCode: number | null, error?: unknown): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', kill);
      resolve({ exitCode, error });
    };
    child.once('error', error => end(null, error));
    child.once('exit', code => end(code));
  });
}
