/** The kernelspec of a created environment: in the bridge's form, and as a kernel.json for other programs. */
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { CreationRecord } from './creation-record.js';
import { kernelspecName } from './definition.js';
import { pythonOf } from './folders.js';

/** The content of a kernel.json. */
export interface KernelspecFile {
  readonly argv: readonly string[];
  readonly display_name: string;
  readonly language: string;
  readonly interrupt_mode: 'signal';
  readonly env: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface EnvironmentKernelspec {
  /** `env` contains the variables that are always set. */
  readonly spec: KernelspecFile;
  /** Set only if the user's environment does not define the variable. */
  readonly envDefaults: Readonly<Record<string, string>>;
  /** Folder with the logos. */
  readonly resourceDir: string;
}

/** Derived from the environment's current folder, so that it stays valid after the folder of environments is moved. */
export function kernelspecOf(environment: string, record: CreationRecord): EnvironmentKernelspec {
  return {
    spec: {
      argv: [record.python ?? pythonOf(environment), ...record.kernelspec.argv],
      display_name: record.displayName,
      language: 'python',
      interrupt_mode: 'signal',
      env: record.kernelspec.env,
      metadata: { debugger: record.kernelspec.debugger, tpulab: { environment: record.name } }
    },
    envDefaults: record.kernelspec.envDefaults,
    resourceDir: resourceDirOf(environment, record.name)
  };
}

/**
 * Writes kernel.json and the logos below `built`, for an environment that will be at `environment`. A kernel.json cannot
 * contain defaults, so they are plain values there: otherwise a stock Jupyter would not get them at all.
 */
export async function writeKernelspec(
  built: string,
  environment: string,
  record: CreationRecord,
  logosFrom: string
): Promise<void> {
  const folder = resourceDirOf(built, record.name);
  await mkdir(folder, { recursive: true });
  const { spec, envDefaults } = kernelspecOf(environment, record);
  const file = { ...spec, env: { ...envDefaults, ...spec.env } };
  await writeFile(path.join(folder, 'kernel.json'), `${JSON.stringify(file, null, 2)}\n`);
  for (const logo of (await readdir(logosFrom)).filter(entry => /^logo-[\w-]+\.(png|svg)$/.test(entry))) {
    await copyFile(path.join(logosFrom, logo), path.join(folder, logo));
  }
}

function resourceDirOf(environment: string, name: string): string {
  return path.join(environment, 'share', 'jupyter', 'kernels', kernelspecName(name));
}
