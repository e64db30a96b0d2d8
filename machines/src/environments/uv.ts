/** Finds uv, which creates Python environments from lock files, and runs it. */
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import type { Transfer } from '@tpulab/protocol';
import { EnvironmentError } from './environment-error.js';
import { installedUv } from './locations.js';
import { type ProgramResult, runProgram } from './run-program.js';

type Env = Readonly<Record<string, string | undefined>>;

/** `$TPULAB_UV`, otherwise the uv of this installation, otherwise the first on PATH. */
export function findUv(env: Env = process.env, installed: readonly string[] = installedUv()): string {
  const named = env['TPULAB_UV'];
  if (named !== undefined && named !== '') {
    if (isExecutable(named)) return named;
    throw new EnvironmentError(
      'env_uv_missing',
      `TPULAB_UV names ${named}, which is not a program; correct or unset the variable.`
    );
  }
  const onPath = (env['PATH'] ?? '').split(path.delimiter).map(folder => path.join(folder, 'uv'));
  const found = [...installed, ...onPath].find(isExecutable);
  if (found !== undefined) return found;
  throw new EnvironmentError(
    'env_uv_missing',
    'uv, which creates Python environments, was not found; install it (`pip install uv`) or set TPULAB_UV.'
  );
}

interface UvRun {
  readonly uv: string;
  readonly args: readonly string[];
  readonly signal: AbortSignal;
  readonly onLine?: (line: string) => void;
  readonly maxLines?: number;
  /** Set only when uv is asked for a Python. */
  readonly mayDownloadPython?: true;
}

export async function runUv({
  uv,
  args,
  signal,
  onLine,
  maxLines,
  mayDownloadPython
}: UvRun): Promise<ProgramResult> {
  return runProgram({
    command: uv,
    args,
    signal,
    // Only existing interpreters: a download would come from outside the package registry.
    env: {
      ...pythonFreeEnv(process.env),
      PATH: pathWithBasePython(process.env),
      UV_PYTHON_DOWNLOADS: mayDownloadPython ? 'manual' : 'never',
      UV_NO_PROGRESS: '1',
      NO_COLOR: '1'
    },
    ...(onLine ? { onLine } : {}),
    ...(maxLines === undefined ? {} : { maxLines })
  });
}

/**
 * The wheel of the extension records the Python that installed it: uv skips virtual environments on PATH, and that Python
 * may be the only one on this machine.
 */
function pathWithBasePython(env: Env): string {
  const base = env['TPULAB_BASE_PYTHON'];
  const folders = [env['PATH'], base === undefined || base === '' ? undefined : path.dirname(base)];
  return folders.flatMap(folder => folder || []).join(path.delimiter);
}

/** The environment without variables that make Python search outside its own folder. */
export function pythonFreeEnv(env: Env): Record<string, string | undefined> {
  const clean: Record<string, string | undefined> = { ...env };
  for (const name of [
    'PYTHONPATH',
    'PYTHONHOME',
    'VIRTUAL_ENV',
    'CONDA_PREFIX',
    'UV_PYTHON',
    'PYTHONSTARTUP'
  ]) {
    clean[name] = undefined;
  }
  return clean;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Shares of the total time, measured on a home connection: downloads take most of it, and an environment's bytecode about
 * 10 s.
 */
const DOWNLOADS = 0.6;
const PROGRESS_OF_LINE: readonly (readonly [begin: RegExp, fraction: number])[] = [
  [/^Prepared \d/, DOWNLOADS],
  [/^Installed \d/, 0.75],
  [/^Bytecode compiled \d/, 0.9]
];
const UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

export class UvProgress {
  readonly #rate: TransferRate;
  readonly #sizes = new Map<string, number>();
  readonly #done = new Set<string>();
  #fraction: number | null = null;

  /** @param now in milliseconds, with an arbitrary origin */
  constructor(now?: () => number) {
    this.#rate = new TransferRate(now);
  }

  /** 0 to 1, never less than before; null: unknown. */
  get fraction(): number | null {
    return this.#fraction;
  }

  /** null before the first large file, and after the downloads. */
  get transfer(): Transfer | null {
    if (this.#sizes.size === 0 || (this.#fraction ?? 0) >= DOWNLOADS) return null;
    const { bytes, totalBytes } = this.#counted();
    return this.#rate.at(bytes, totalBytes);
  }

  /** @returns the line with a space in its size: `Downloading jaxlib (81.1 MiB)` */
  line(text: string): string {
    const begun = /^\s*Downloading (\S+) \(([\d.]+)(B|KiB|MiB|GiB)\)/.exec(text);
    if (begun) {
      const [, name = '', size = '', unit = ''] = begun;
      this.#sizes.set(name, Number(size) * (UNITS[unit] ?? 1));
      this.#rate.begin();
    }
    const ended = /^\s*Downloaded (\S+)/.exec(text)?.[1];
    if (ended !== undefined && this.#sizes.has(ended)) this.#done.add(ended);
    if (begun || ended !== undefined) {
      const { bytes, totalBytes } = this.#counted();
      if (totalBytes > 0) this.#reach((DOWNLOADS * bytes) / totalBytes);
    }
    const reached = PROGRESS_OF_LINE.find(([begin]) => begin.test(text.trim()));
    if (reached) this.#reach(reached[1]);
    return text.trim().replace(/\(([\d.]+)(B|KiB|MiB|GiB)\)/, '($1 $2)');
  }

  #counted(): { readonly bytes: number; readonly totalBytes: number } {
    let [bytes, totalBytes] = [0, 0];
    for (const [name, size] of this.#sizes) {
      totalBytes += size;
      if (this.#done.has(name)) bytes += size;
    }
    return { bytes, totalBytes };
  }

  #reach(fraction: number): void {
    this.#fraction = Math.max(this.#fraction ?? 0, fraction);
  }
}

/** A rate over a shorter time is not meaningful. */
const MIN_MS = 500;

/** The mean rate of consecutive bytes since the first of them. */
export class TransferRate {
  #since: number | null = null;

  /** @param now in milliseconds, with an arbitrary origin */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** The clock starts at the first call. */
  begin(): void {
    this.#since ??= this.now();
  }

  at(bytes: number, totalBytes: number | null): Transfer {
    this.begin();
    const tookMs = this.now() - (this.#since ?? 0);
    return { bytes, totalBytes, bytesPerS: tookMs < MIN_MS ? null : (bytes / tookMs) * 1_000 };
  }
}
