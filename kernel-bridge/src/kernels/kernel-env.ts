/**
 * The environment of a kernel process. A kernel runs any code of its user, and its output is stored, so
 * it must contain no key to a server. The user's own keys (for data sets, for experiment trackers) stay.
 */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { isWithin } from '@tpulab/platform/paths.js';
import type { KernelSpec } from './kernelspec-catalog.js';

/** Variables of the gateway's own environment that never reach a kernel. */
export const WITHHELD_VARIABLES: readonly string[] = [
  'CONFIGPROXY_AUTH_TOKEN',
  'EG_AUTH_TOKEN',
  'JPY_API_TOKEN',
  // A kernel that gets its parent's pid ends with the parent, but ours outlive the gateway and a crashed keeper.
  'JPY_PARENT_PID',
  'JUPYTERHUB_API_TOKEN',
  'JUPYTERHUB_CLIENT_ID',
  'JUPYTERHUB_COOKIE_OPTIONS',
  'JUPYTER_GATEWAY_AUTH_TOKEN',
  'JUPYTER_GATEWAY_HTTP_PWD',
  'JUPYTER_TOKEN',
  'KG_AUTH_TOKEN',
  'NODE_CHANNEL_FD',
  'NODE_OPTIONS',
  'PYTHONEXECUTABLE',
  'TPULAB_TOKEN',
  'TPULAB_TOKEN_FILE'
];

/** `npx tpulab` adds npm's configuration, credentials of registries included, to the environment. */
const WITHHELD_PREFIXES = ['npm_'];

interface KernelEnvSources {
  readonly gateway: Readonly<Record<string, string | undefined>>;
  readonly spec: Pick<KernelSpec, 'env' | 'envDefaults'>;
  /** `env` of the request; only names that begin with `KERNEL_`, and the names in `clientEnvs`, pass. */
  readonly request?: Readonly<Record<string, string>> | undefined;
  /** Additional names that a request may set. Withheld names stay withheld. */
  readonly clientEnvs?: readonly string[];
  readonly kernelId: string;
}

export function kernelEnv(sources: KernelEnvSources): Record<string, string> {
  const { gateway, spec, request, clientEnvs = [], kernelId } = sources;
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(gateway)) {
    if (value !== undefined && !isWithheld(name)) env[name] = value;
  }
  for (const [name, value] of Object.entries(spec.envDefaults)) env[name] ??= value;
  const merged = { ...env };
  for (const [name, value] of Object.entries(spec.env)) env[name] = fillIn(value, merged);
  for (const [name, value] of Object.entries(request ?? {})) {
    if (name.startsWith('KERNEL_') || (clientEnvs.includes(name) && !isWithheld(name))) env[name] = value;
  }
  env['TPULAB_KERNEL_ID'] = kernelId;
  return env;
}

/** Whether a variable gives access to this or another server, and is withheld from programs of other authors. */
export function isWithheld(name: string): boolean {
  return WITHHELD_VARIABLES.includes(name) || WITHHELD_PREFIXES.some(prefix => name.startsWith(prefix));
}

/** Expands `${NAME}` and `$NAME` as Jupyter does: an unknown name stays unchanged, and `$$` is `$`. */
function fillIn(value: string, env: Readonly<Record<string, string>>): string {
  return value.replace(
    /\$(?:(\$)|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g,
    (whole, dollar?: string, braced?: string, bare?: string) => {
      return dollar ?? env[braced ?? bare ?? ''] ?? whole;
    }
  );
}

/**
 * Jupyter's own gateway client uses this variable for the folder on the client's machine, which is also the kernel's
 * machine if both are the same.
 */
export const WORKING_DIR = 'KERNEL_WORKING_DIR';

/**
 * The folder in which a kernel starts. Client paths are relative to the root folder. A path that does not exist here (a
 * notebook on the page's machine) must still work, so the nearest existing folder above it is used, at most the root.
 */
export async function workingDirectory(
  rootDir: string,
  clientPath: string | null | undefined,
  ofClient = ''
): Promise<string> {
  if (path.isAbsolute(ofClient) && !ofClient.includes('\0') && (await isFolder(ofClient))) return ofClient;
  const root = path.resolve(rootDir);
  const requested = (clientPath ?? '').replaceAll('\0', '');
  // A client's leading slash means the root folder, except in a path that names the root itself, as a page sends it when it
  // knows the path of a folder on this machine. `..` cannot leave the root.
  const below = path.posix.normalize(`/${requested}`);
  const isWhole = requested.startsWith('/') && isWithin(root, below);
  let folder = isWhole ? path.resolve(below) : path.resolve(root, `.${below}`);
  while (folder !== root && !(await isFolder(folder))) folder = path.dirname(folder);
  return folder;
}

async function isFolder(folder: string): Promise<boolean> {
  try {
    return (await stat(folder)).isDirectory();
  } catch {
    return false;
  }
}
