/** The kernelspecs that Jupyter finds on this machine: `kernels/<name>/kernel.json` in its data folders. */
import { access, constants, readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { xdgFolder } from '@tpulab/platform/user-folders.js';
import { Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { Logger } from 'pino';
import {
  isKernelSpecName,
  type KernelSpec,
  type KernelSpecSource,
  resourcesOf
} from './kernelspec-catalog.js';

const KernelJson = Type.Object({
  argv: Type.Array(Type.String(), { minItems: 1 }),
  display_name: Type.String(),
  language: Type.Optional(Type.String()),
  env: Type.Optional(Type.Record(Type.String(), Type.String())),
  interrupt_mode: Type.Optional(Type.String()),
  kernel_protocol_version: Type.Optional(Type.String()),
  metadata: Type.Optional(Type.Record(Type.String(), Type.Unknown()))
});

export class JupyterKernelSpecs implements KernelSpecSource {
  /** Files that were reported as unreadable; each is reported once, because specs are listed often. */
  readonly #reported = new Set<string>();

  constructor(
    private readonly folders: readonly string[],
    private readonly log: Logger
  ) {}

  async kernelspecs(): Promise<readonly KernelSpec[]> {
    const found = new Map<string, KernelSpec>();
    for (const folder of this.folders) {
      for (const name of await entries(path.join(folder, 'kernels'))) {
        const key = name.toLowerCase();
        if (!isKernelSpecName(name) || found.has(key)) continue;
        const spec = await this.#read(key, path.join(folder, 'kernels', name), folder);
        if (spec) found.set(key, spec);
      }
    }
    return [...found.values()];
  }

  async #read(name: string, resourceDir: string, dataFolder: string): Promise<KernelSpec | null> {
    const file = path.join(resourceDir, 'kernel.json');
    const text = await readFile(file, 'utf8').catch(() => null);
    if (text === null) return null;
    try {
      const json: unknown = JSON.parse(text);
      if (!Value.Check(KernelJson, json)) throw new Error(describe(json));
      return {
        name,
        displayName: json.display_name,
        language: json.language ?? '',
        argv: await ownInterpreter(json.argv, dataFolder),
        env: json.env ?? {},
        envDefaults: {},
        protocolVersion: json.kernel_protocol_version ?? '',
        interruptMode: json.interrupt_mode === 'message' ? 'message' : 'signal',
        metadata: { ...json.metadata, tpulab: { bestEffort: true } },
        resourceDir,
        resources: resourcesOf(await entries(resourceDir)),
        bestEffort: true
      };
    } catch (error) {
      if (!this.#reported.has(file)) {
        this.#reported.add(file);
        this.log.warn({ file, err: error }, 'kernelspec left out: its kernel.json is not valid');
      }
      return null;
    }
  }
}

function describe(json: unknown): string {
  const first = Value.Errors(KernelJson, json).First();
  return first ? `${first.path}: ${first.message}` : 'not a kernelspec';
}

/**
 * A spec that a Python environment has installed for itself contains only `python`. Jupyter replaces that with the
 * interpreter that runs the server; the bridge has none, so it uses the interpreter of the spec's own environment.
 */
async function ownInterpreter(argv: readonly string[], dataFolder: string): Promise<readonly string[]> {
  const command = argv[0] ?? '';
  if (!/^python[0-9.]*$/.test(command) || path.basename(dataFolder) !== 'jupyter') return argv;
  const candidate = path.resolve(dataFolder, '..', '..', 'bin', command);
  try {
    await access(candidate, constants.X_OK);
    return [candidate, ...argv.slice(1)];
  } catch {
    return argv;
  }
}

async function entries(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch {
    return [];
  }
}

export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  readonly home: string;
}

/** Folders that may contain `kernels/<name>/kernel.json`, including folders that do not exist. */
export function jupyterDataFolders({ env, platform, home }: Machine): string[] {
  const folders = (env['JUPYTER_PATH'] ?? '').split(path.delimiter).filter(folder => path.isAbsolute(folder));
  folders.push(userFolder({ env, platform, home }));
  for (const name of ['VIRTUAL_ENV', 'CONDA_PREFIX']) {
    const prefix = env[name];
    if (prefix !== undefined && path.isAbsolute(prefix)) folders.push(path.join(prefix, 'share', 'jupyter'));
  }
  folders.push('/usr/local/share/jupyter', '/usr/share/jupyter');
  return [...new Set(folders)];
}

function userFolder({ env, platform, home }: Machine): string {
  const chosen = env['JUPYTER_DATA_DIR'];
  if (chosen !== undefined && chosen !== '') return chosen;
  if (platform === 'darwin') return path.join(home, 'Library', 'Jupyter');
  return path.join(xdgFolder('XDG_DATA_HOME', { ...env, HOME: home }), 'jupyter');
}
