/** `/api/resolvePath`: JupyterLab asks it for the files that tracebacks and outputs name. */
import { Type } from '@sinclair/typebox';
import type { KernelRegistry } from './kernel-registry.js';
import type { App } from '../http/app.js';
import { resolveBelowRoot, resolveForKernel } from './resolve-path.js';

const Scope = Type.Union([Type.Literal('server'), Type.Literal('kernel')]);

const Resolution = Type.Object({
  resolved: Type.Array(Type.Object({ scope: Scope, path: Type.String() })),
  unresolved: Type.Optional(Type.Array(Type.Object({ scope: Scope, reason: Type.String() })))
});

export function addResolvePathRoutes(app: App, registry: KernelRegistry, rootDir: string): void {
  app.get(
    '/api/resolvePath',
    {
      schema: {
        summary: 'Where a file is, for the server and for a kernel',
        querystring: Type.Object({ path: Type.String(), kernel: Type.Optional(Type.String()) }),
        response: { 200: Resolution }
      }
    },
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
