/** `/api/resolvePath`: JupyterLab calls it for file names in tracebacks and outputs. */
import { stat } from 'node:fs/promises';
import { homeFolder } from '@tpulab/platform/user-folders.js';
import path from 'node:path';
import { isWithin } from '@tpulab/platform/paths.js';
import { Type } from '@sinclair/typebox';
import type { App } from '../http/app.js';
import type { KernelRegistry } from './kernel-registry.js';
import { route } from '../http/api-description.js';

const Scope = Type.Union([Type.Literal('server'), Type.Literal('kernel')]);

const Resolution = Type.Object({
  resolved: Type.Array(Type.Object({ scope: Scope, path: Type.String() })),
  unresolved: Type.Optional(Type.Array(Type.Object({ scope: Scope, reason: Type.String() })))
});

export function addResolvePathRoutes(app: App, registry: KernelRegistry, rootDir: string): void {
  app.get(
    '/api/resolvePath',
    route(
      'Where a file is, for the server and for a kernel',
      { 200: Resolution },
      { querystring: Type.Object({ path: Type.String(), kernel: Type.Optional(Type.String()) }) }
    ),
    async request => {
      const { path, kernel: kernelId } = request.query;
      const below = await resolveBelowRoot(rootDir, path);
      const resolved = below === null ? [] : [{ scope: 'server' as const, path: below }];
      if (kernelId === undefined || kernelId === '') return { resolved };
      const kernel = registry.find(kernelId);
      if (!kernel) {
        const reason = `Kernel ${kernelId} could not be found`;
        return { resolved, unresolved: [{ scope: 'kernel' as const, reason }] };
      }
      const seen = await resolveForKernel(await registry.workingDirectoryOf(kernel), path);
      return { resolved: seen === null ? resolved : [...resolved, { scope: 'kernel' as const, path: seen }] };
    }
  );
}

/**
 * The path relative to the root folder, with slashes, or null when there is no such file below it. Files outside the root
 * are never accessed, so that no information about them leaks.
 */
export async function resolveBelowRoot(rootDir: string, requested: string): Promise<string | null> {
  const root = path.resolve(rootDir);
  const expanded = expandHome(requested);
  const wasExpanded = expanded !== requested;
  const isInside = path.isAbsolute(expanded) && (wasExpanded || isWithin(root, expanded));
  // A client's absolute path starts at the root folder, as everywhere in Jupyter's API.
  const file = isInside ? path.resolve(expanded) : path.resolve(root, expanded.replace(/^\/+/, ''));
  if (!isWithin(root, file) || !(await exists(file))) return null;
  return path.relative(root, file).split(path.sep).join('/');
}

/** The absolute path of a file that the kernel names relative to the folder in which it was started, or null. */
export async function resolveForKernel(workingDirectory: string, requested: string): Promise<string | null> {
  const file = path.resolve(workingDirectory, expandHome(requested));
  return (await exists(file)) ? file : null;
}

function expandHome(requested: string): string {
  return requested === '~' || requested.startsWith('~/')
    ? path.join(homeFolder(), requested.slice(1))
    : requested;
}

async function exists(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch {
    // This includes invalid paths: with a zero byte, or too long.
    return false;
  }
}
