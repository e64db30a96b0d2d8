/** Paths of the descriptions, of the environments, and of the agent's sources. */
import { existsSync, readdirSync } from 'node:fs';
import { xdgFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

type Env = Readonly<Record<string, string | undefined>>;

/** `kernel-bridge/`, relative to both `lib/environments/` and `src/environments/`; in a bundle (`lib/cli/`), the bundle. */
export const PACKAGE_FOLDER = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Folder of environments: the requested one, otherwise `$TPULAB_ENV_DIR`, otherwise the folder of this bridge's checkout,
 * which `npm start` uses, otherwise the XDG data folder.
 */
export function environmentsFolder(
  requested: string | undefined,
  env: Env = process.env,
  packageFolder = PACKAGE_FOLDER
): string {
  const named = requested ?? nonEmpty(env['TPULAB_ENV_DIR']);
  if (named !== undefined) return path.resolve(named);
  // Relative to the sources' package and to the bundle below `.tpulab`.
  const checkout = [path.resolve(packageFolder, '..'), path.resolve(packageFolder, '..', '..')].find(folder =>
    existsSync(path.join(folder, 'scripts', 'start.mjs'))
  );
  if (checkout !== undefined) return path.join(checkout, '.tpulab', 'envs');
  return path.join(xdgFolder('XDG_DATA_HOME', env), 'tpulab', 'envs');
}

/** Folder of descriptions: the requested one, otherwise the package's own, otherwise the checkout around the package. */
export function definitionsFolder(requested: string | undefined, env: Env = process.env): string {
  const named = requested ?? nonEmpty(env['TPULAB_ENV_DEFINITIONS']);
  if (named !== undefined) return path.resolve(named);
  const own = path.join(PACKAGE_FOLDER, 'environments');
  return existsSync(own) ? own : path.resolve(PACKAGE_FOLDER, '..', 'environments');
}

/** Our own Python package, in the form in which it is installed into an environment. */
export interface PackageSource {
  readonly path: string;
  /** A checkout's package is editable, so that a change in its sources takes effect when a kernel is next started. */
  readonly editable: boolean;
}

/** The agent's sources: the requested folder or wheel, otherwise a checkout's; null if there are none. */
export function agentSource(requested: string | undefined): PackageSource | null {
  return packageSource(requested, 'kernel-agent', 'tpulab');
}

/** The sources of `tpulab_recipes`, found in the same way. */
export function recipesSource(requested: string | undefined): PackageSource | null {
  return packageSource(requested, 'recipes', 'tpulab_recipes');
}

function packageSource(
  requested: string | undefined,
  folderOfCheckout: string,
  packageName: string
): PackageSource | null {
  if (requested !== undefined) {
    const resolved = path.resolve(requested);
    if (!existsSync(resolved)) return null;
    return { path: resolved, editable: existsSync(path.join(resolved, 'pyproject.toml')) };
  }
  const wheel = packagedWheel(packageName);
  if (wheel !== null) return { path: wheel, editable: false };
  const folder = path.resolve(PACKAGE_FOLDER, '..', folderOfCheckout);
  return existsSync(path.join(folder, 'pyproject.toml')) ? { path: folder, editable: true } : null;
}

/** An installed bridge contains the wheels of the other packages. */
function packagedWheel(packageName: string): string | null {
  const folder = path.join(PACKAGE_FOLDER, 'wheels');
  const wheels = existsSync(folder) ? readdirSync(folder) : [];
  const found = wheels.find(file => file.startsWith(`${packageName}-`) && file.endsWith('.whl'));
  return found === undefined ? null : path.join(folder, found);
}

/**
 * The uv that a checkout's setup installs, relative to the sources' package (`kernel-bridge`) and to the bundle that `npm start`
 * runs (`.tpulab/bridge`). For a bridge installed by pip, TPULAB_UV names the uv of its Python environment.
 */
export function installedUv(packageFolder: string = PACKAGE_FOLDER): readonly string[] {
  const program = path.join('tools', 'bin', 'uv');
  return [path.resolve(packageFolder, '..', '.tpulab', program), path.resolve(packageFolder, '..', program)];
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === undefined || value === '' ? undefined : value;
}
