/**
 * One keeper that has loaded its program and waits for a kernel, so that a new kernel need not wait for loading. It belongs
 * to this process until it is used, and ends with it in any case: it waits on the other end of a pipe.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { kernelPaths } from '../keeper-protocol/keeper-file.js';
import { launchSpare, type LaunchOptions } from './launch.js';
import { listening, reportOf, type ReportOptions } from '../keeper-protocol/start-report.js';

interface SpareKeeperOptions extends Pick<LaunchOptions, 'entry' | 'systemd'> {
  /** On the file system of the kernels' folders; the spare keeper's log is here until it has a kernel. */
  readonly folder: string;
  readonly log: Logger;
  readonly quietMs?: number;
}

/** A kernel that is starting needs the CPU more than the next kernel's keeper does. */
const QUIET_MS = 1_000;

export class SpareKeeper implements AsyncDisposable {
  readonly #logFile: string;
  #child: ChildProcess | null = null;
  #timer: NodeJS.Timeout | null = null;
  #making: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(private readonly options: SpareKeeperOptions) {
    this.#logFile = join(options.folder, 'spare-keeper.log');
  }

  /** From now on, starts a new spare keeper whenever no kernel has been started for a while. */
  keepReady(): void {
    clearTimeout(this.#timer ?? undefined);
    if (!this.#closed) {
      this.#timer = setTimeout(() => {
        this.#making = this.#making.then(() => this.#make());
      }, this.options.quietMs ?? QUIET_MS);
      this.#timer.unref();
    }
  }

  /** The pid of the waiting keeper. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Like `launchKeeper`, for a new kernel in this folder; null when no keeper waits, or the folder has the log of another
   * keeper.
   */
  take(kernelDir: string, options: ReportOptions = {}): Promise<ChildProcess> | null {
    this.keepReady();
    const child = this.#child;
    const { keeperLog } = kernelPaths(kernelDir);
    if (child === null || existsSync(keeperLog)) return null;
    this.#child = null;
    try {
      renameSync(this.#logFile, keeperLog);
    } catch (error) {
      this.options.log.warn({ err: error }, 'a spare keeper cannot be used: its log cannot be moved');
      child.kill('SIGKILL');
      return null;
    }
    child.ref();
    pipeOf(child).ref();
    const reported = reportOf(child, options, keeperLog);
    pipeOf(child).write(`${JSON.stringify(kernelDir)}\n`);
    return listening(child, reported, 'SIGTERM');
  }

  /** Ends the waiting keeper. It has no kernel, so it has nothing to finish. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer ?? undefined);
    await this.#making;
    const child = this.#child;
    this.#child = null;
    if (child !== null) {
      child.ref();
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
    await rm(this.#logFile, { force: true });
  }

  async #make(): Promise<void> {
    const { folder, log } = this.options;
    if (this.#child !== null || this.#closed) return;
    try {
      // A log may be left from a keeper that ended, or whose gateway was killed.
      await rm(this.#logFile, { force: true });
      const child = await launchSpare(folder, this.#logFile, this.options);
      this.#child = child;
      const ended = (why: unknown): void => {
        if (this.#child === child) {
          this.#child = null;
          log.warn({ why }, 'a spare keeper has ended; the next kernel starts without');
        }
      };
      child.once('error', ended);
      child.once('exit', (code, signal) => ended(code ?? signal));
      pipeOf(child).on('error', ended).unref();
      child.unref();
    } catch (error) {
      log.warn({ err: error }, 'there is no spare keeper');
    }
  }
}

/** Descriptor 3 of the keeper, on which it receives the folder and reports. */
function pipeOf(child: ChildProcess): Socket {
  return child.stdio[3] as Socket;
}
