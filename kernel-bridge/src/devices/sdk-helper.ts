/**
 * Reads the metrics that only libtpu's own SDK has (TensorCore utilisation, health of the links, throttling) in a separate
 * process: the SDK takes 120 MB, may wait for minutes, and some versions of it crash Python. A helper that ends is
 * restarted, at growing intervals; one without output for too long is killed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { SdkFigures } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { script } from '@tpulab/machines';
import { jsonIn } from '@tpulab/platform/json-text.js';

const SILENCE_MS = 60_000;
const FIRST_PAUSE_MS = 5_000;
const MAX_PAUSE_MS = 600_000;
/** Older figures are not shown. */
const FRESH_MS = 30_000;

interface SdkHelperOptions {
  readonly python: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  readonly silenceMs?: number;
  readonly firstPauseMs?: number;
}

export class SdkHelper implements AsyncDisposable {
  readonly #options: Required<SdkHelperOptions>;
  #child: ChildProcess | null = null;
  #timer: NodeJS.Timeout | null = null;
  #watchdog: NodeJS.Timeout | null = null;
  #pauseMs: number;
  #newest: SdkFigures | null = null;
  /** By the monotonic clock. */
  #newestAt = 0;
  #ended: Promise<void> = Promise.resolve();
  #isOver = false;

  constructor(options: SdkHelperOptions) {
    this.#options = { silenceMs: SILENCE_MS, firstPauseMs: FIRST_PAUSE_MS, ...options };
    this.#pauseMs = this.#options.firstPauseMs;
    this.#start();
  }

  /** null before the first figures, and after half a minute without output from the helper. */
  get newest(): SdkFigures | null {
    return this.#newest !== null && performance.now() - this.#newestAt < FRESH_MS ? this.#newest : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    if (this.#timer) clearTimeout(this.#timer);
    this.#child?.kill('SIGKILL');
    await this.#ended;
  }

  #start(): void {
    const { python, env, log } = this.#options;
    const child = spawn(python, ['-c', script('sdk.py')], {
      // Prevents queries to the metadata server, which the SDK would otherwise send thirty times for each key.
      env: { PATH: env['PATH'], HOME: env['HOME'], TPU_SKIP_MDS_QUERY: '1' },
      stdio: ['ignore', 'pipe', 'ignore']
    });
    this.#child = child;
    this.#guard(child);
    createInterface({ input: child.stdout }).on('line', line => {
      const figures = parseSdkLine(line, Date.now());
      if (figures === null) return;
      this.#newest = figures;
      this.#newestAt = performance.now();
      this.#pauseMs = this.#options.firstPauseMs;
      this.#guard(child);
    });
    this.#ended = new Promise(resolve => {
      const over = (why: unknown): void => {
        if (this.#watchdog) clearTimeout(this.#watchdog);
        this.#child = null;
        resolve();
        if (this.#isOver) return;
        log.warn({ why, againMs: this.#pauseMs }, "the helper for libtpu's SDK has ended");
        this.#timer = setTimeout(() => this.#start(), this.#pauseMs);
        this.#timer.unref();
        this.#pauseMs = Math.min(this.#pauseMs * 2, MAX_PAUSE_MS);
      };
      child.once('error', error => over(error.message));
      child.once('close', (code, signal) => {
        if (this.#child === child) over(signal ?? `exit code ${code ?? 0}`);
      });
    });
  }

  #guard(child: ChildProcess): void {
    if (this.#watchdog) clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => child.kill('SIGKILL'), this.#options.silenceMs);
    this.#watchdog.unref();
  }
}

type Link = SdkFigures['links'][number];

/** Parses a line of the helper; null for any other line. The SDK's lists contain text: `12.5`, `tray1.chip3.ici0.int: 0`, `0-3`. */
export function parseSdkLine(line: string, time: number): SdkFigures | null {
  const parsed = jsonIn(line);
  if (typeof parsed !== 'object' || parsed === null) return null;
  const list = (name: string): string[] => {
    const value = (parsed as Record<string, unknown>)[name];
    return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
  };
  return {
    time,
    tensorCorePercent: list('tensorcore_util').map(text => {
      const percent = Number(text);
      return Number.isFinite(percent) && percent >= 0 && percent <= 100 ? percent : null;
    }),
    throttlePercent: list('tpu_throttle_score').flatMap(text => {
      const found = /^(\d+)-(\d+)$/.exec(text.trim());
      const percent = Number(found?.[2]) * 10;
      return found && percent <= 100 ? [{ device: Number(found[1]), percent }] : [];
    }),
    links: list('ici_link_health').flatMap(text => {
      const found = /^(\S+?)(?:\.int)?:\s*(\d+)$/.exec(text.trim());
      const score = Number(found?.[2]);
      return found?.[1] !== undefined && score <= 10
        ? [{ name: found[1], score, state: stateOf(score) }]
        : [];
    })
  };
}

function stateOf(score: number): Link['state'] {
  if (score === 0) return 'ok';
  if (score <= 5) return 'transient';
  return score <= 9 ? 'minor' : 'unusable';
}
