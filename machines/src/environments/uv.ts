/** Finds uv, the program that makes Python environments from lock files, and runs it. */
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { EnvironmentError } from './environment-error.js';
import { installedUv } from './locations.js';
import { type ProgramResult, runProgram } from './run-program.js';

type Env = Readonly<Record<string, string | undefined>>;

/** `$TPULAB_UV`, else the uv of this installation, else the first on PATH. */
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

export interface UvRun {
  readonly uv: string;
  readonly args: readonly string[];
  readonly signal: AbortSignal;
  readonly onLine?: (line: string) => void;
  readonly maxLines?: number;
  /** Set only for a request for a Python. */
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
 * The wheel of the extension records its installing Python: uv skips virtual environments on PATH, and that Python may be
 * the only one there.
 */
function pathWithBasePython(env: Env): string {
  const base = env['TPULAB_BASE_PYTHON'];
  const folders = [env['PATH'], base === undefined || base === '' ? undefined : path.dirname(base)];
  return folders.flatMap(folder => folder || []).join(path.delimiter);
}

/** The environment without variables that make a Python search outside its own folder. */
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
