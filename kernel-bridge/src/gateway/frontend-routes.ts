/**
 * `/bridge/v1/kernels/ID/frontend/PATH`: browser files that the Python packages of a kernel's environment have installed.
 * The session page uses them to show their widgets, in frames without access to the gateway.
 */
import { bridgeError } from '@tpulab/platform/errors.js';
import path from 'node:path';
import { Type } from '@sinclair/typebox';
import { RootFolder } from '../files/root-folder.js';
import { failure, notJson, route } from '../http/api-description.js';
import { kernelIn } from '../http/access-hooks.js';
import type { App } from '../http/app.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import type { KernelSpecCatalog } from '../kernels/kernelspec-catalog.js';

const Params = Type.Object({ kernelId: Type.String(), '*': Type.String() });
/** The parts of Jupyter's data folder that pages may load. */
const FOLDERS = /^(nbextensions|labextensions)\/./;

export function addFrontendRoutes(app: App, registry: KernelRegistry, specs: KernelSpecCatalog): void {
  app.get(
    '/bridge/v1/kernels/:kernelId/frontend/*',
    route(
      'A file that a package of the environment of a kernel has installed for browsers',
      {
        200: notJson('the file', 'application/octet-stream'),
        404: failure('No kernel has this id, or its environment has no such file.')
      },
      { access: ['run', kernelIn], operationId: 'get_kernel_frontend', params: Params }
    ),
    async ({ params }, reply) => {
      const { '*': requested } = params;
      const spec = await specs.find(registry.get(params.kernelId).snapshot.specName);
      for (const folder of FOLDERS.test(requested) && spec ? dataFolders(spec) : []) {
        const found = await new RootFolder(folder).read(requested).catch(() => null);
        if (found !== null)
          return reply
            .headers({
              'content-type': 'application/octet-stream',
              'content-disposition': 'attachment',
              'x-content-type-options': 'nosniff'
            })
            .send(found.bytes);
      }
      throw bridgeError('file_not_found', requested);
    }
  );
}

/** Jupyter's data folders of an environment: beside its Python, and around its kernelspec (`share/jupyter/kernels/NAME`). */
function dataFolders({
  argv,
  resourceDir
}: {
  readonly argv: readonly string[];
  readonly resourceDir: string | null;
}): string[] {
  const [program = ''] = argv;
  const beside = path.isAbsolute(program) ? path.resolve(program, '../../share/jupyter') : null;
  const above = resourceDir === null ? null : path.resolve(resourceDir, '../..');
  return [...new Set([beside, above])].filter(folder => folder !== null);
}
