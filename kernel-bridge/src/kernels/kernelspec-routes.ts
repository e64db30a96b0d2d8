/** `/api/kernelspecs`, and the logos at `/kernelspecs/<name>/<file>`. */
import { type Static, Type } from '@sinclair/typebox';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { KernelSpec, KernelSpecCatalog } from './kernelspec-catalog.js';
import { failure, notJson, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { BaseUrl } from '../http/base-url.js';

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8'
};

const SpecModel = Type.Object({
  name: Type.String(),
  spec: Type.Object({
    argv: Type.Array(Type.String()),
    env: Type.Record(Type.String(), Type.String()),
    display_name: Type.String(),
    language: Type.String(),
    interrupt_mode: Type.String({ description: 'signal or message' }),
    metadata: Type.Record(Type.String(), Type.Unknown()),
    kernel_protocol_version: Type.String({ description: 'empty when the kernelspec claims none' })
  }),
  resources: Type.Record(Type.String(), Type.String(), { description: 'paths of logos and scripts' })
});
type SpecModel = Static<typeof SpecModel>;

const SpecList = Type.Object({
  default: Type.String(),
  kernelspecs: Type.Record(Type.String(), SpecModel)
});

export function addKernelSpecRoutes(app: App, specs: KernelSpecCatalog, base: BaseUrl): void {
  app.get('/api/kernelspecs', route('All kernelspecs', { 200: SpecList }, { access: ['read'] }), async () => {
    const all = await specs.list();
    return {
      default: specs.defaultOf(all),
      kernelspecs: Object.fromEntries([...all.values()].map(spec => [spec.name, specModel(spec, base)]))
    };
  });

  app.get(
    '/api/kernelspecs/:name',
    route(
      'One kernelspec',
      { 200: SpecModel, 404: failure('No kernelspec has this name.') },
      { params: Type.Object({ name: Type.String() }) }
    ),
    async request => {
      const spec = await specs.find(request.params.name);
      if (!spec) throw bridgeError('kernelspec_not_found', request.params.name);
      return specModel(spec, base);
    }
  );

  app.get(
    '/kernelspecs/:name/:file',
    route(
      'A file of a kernelspec',
      {
        200: notJson('the file', '*/*'),
        404: failure('The kernelspec, or the file, does not exist.')
      },
      {
        params: Type.Object({ name: Type.String(), file: Type.String() }),
        querystring: Type.Object({ token: Type.Optional(Type.String()) })
      }
    ),
    async (request, reply) => {
      const { name, file } = request.params;
      const spec = await specs.find(name);
      if (!spec) throw bridgeError('kernelspec_not_found', name);
      // Only known files in the kernelspec's folder: a client's path is never used on the disk.
      if (spec.resourceDir === null) throw bridgeError('resource_not_found', name, file);
      const known = (await filesIn(spec.resourceDir)).find(resource => resource === file);
      if (known === undefined) throw bridgeError('resource_not_found', name, file);
      const type = MEDIA_TYPES[path.extname(known)] ?? 'application/octet-stream';
      const bytes = await read(path.join(spec.resourceDir, known), name, known);
      // Kernelspecs may come from any source, and SVG can contain scripts.
      void reply.headers({
        'content-security-policy': "sandbox; default-src 'none'; style-src 'unsafe-inline'"
      });
      return reply.header('x-content-type-options', 'nosniff').type(type).send(bytes);
    }
  );
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  // kernel.json is left out: its contents are in `/api/kernelspecs`.
  return entries
    .filter(entry => !entry.isDirectory() && entry.name !== 'kernel.json')
    .map(entry => entry.name);
}

async function read(file: string, name: string, resource: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch {
    throw bridgeError('resource_not_found', name, resource);
  }
}

function specModel(spec: KernelSpec, base: BaseUrl): SpecModel {
  return {
    name: spec.name,
    spec: {
      argv: [...spec.argv],
      env: { ...spec.envDefaults, ...spec.env },
      display_name: spec.displayName,
      language: spec.language,
      interrupt_mode: spec.interruptMode,
      metadata: spec.metadata,
      kernel_protocol_version: spec.protocolVersion ?? ''
    },
    resources: Object.fromEntries(
      Object.entries(spec.resources).map(([key, file]) => [
        key,
        base.full(`/kernelspecs/${encodeURIComponent(spec.name)}/${encodeURIComponent(file)}`)
      ])
    )
  };
}
