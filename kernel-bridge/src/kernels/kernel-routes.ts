/** `/api/kernels`. */
import { Type } from '@sinclair/typebox';
import { bridgeError } from '@tpulab/platform/errors.js';
import { isKernelId, type KernelRegistry } from './kernel-registry.js';
import { KernelModel, kernelModel } from './kernel-model.js';
import { actorOf, kernelIn, may } from '../http/access-hooks.js';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { pathOf } from '../http/authentication.js';
import type { BaseUrl } from '../http/base-url.js';

const Nullable = Type.Union([Type.String(), Type.Null()]);

/** Fields that are not named here are Jupyter's own and are ignored. */
const KernelRequest = Type.Object({
  name: Type.Optional(Nullable),
  path: Type.Optional(Nullable),
  kernel_id: Type.Optional(Nullable),
  env: Type.Optional(Type.Record(Type.String(), Type.String()))
});

const KernelParams = Type.Object({ kernelId: Type.String() });

const Done = Type.Null({ description: 'It is done.' });
const NO_KERNEL = failure('No kernel has this id.');
const FAILED = failure('The kernel could not be started, interrupted, restarted or shut down.');

export function addKernelRoutes(app: App, registry: KernelRegistry, base: BaseUrl): void {
  app.get(
    '/api/kernels',
    route('Running kernels', { 200: Type.Array(KernelModel) }, { access: ['read'] }),
    async ({ raw }) =>
      registry
        .list()
        .filter(({ id }) => actorOf(raw) === null || may(raw, 'read', { kind: 'kernel', id }))
        .map(kernelModel)
  );

  app.post(
    '/api/kernels',
    route(
      'Start a kernel',
      {
        201: KernelModel,
        409: failure('The chosen id is in use.'),
        500: FAILED,
        501: failure('No kernelspec has this name.')
      },
      { access: ['run'], body: Type.Optional(Type.Union([KernelRequest, Type.Null()])) }
    ),
    async (request, reply) => {
      const body = request.body ?? {};
      const kernelId = body.kernel_id ?? null;
      if (kernelId !== null && !isKernelId(kernelId))
        throw bridgeError('invalid_request', 'kernel_id must be a UUID.');
      const { name, path, env } = body;
      const kernel = await registry.start({ name, path, env, kernelId: kernelId?.toLowerCase() });
      return reply
        .code(201)
        .header('location', base.full(`/api/kernels/${kernel.id}`))
        .send(kernelModel(kernel));
    }
  );

  app.get(
    '/api/kernels/:kernelId',
    route(
      'One kernel',
      { 200: KernelModel, 404: NO_KERNEL },
      { access: ['read', kernelIn], params: KernelParams }
    ),
    async request => kernelModel(registry.get(request.params.kernelId))
  );

  app.delete(
    '/api/kernels/:kernelId',
    route(
      'Shut a kernel down',
      { 204: Done, 404: NO_KERNEL, 500: FAILED },
      { access: ['steer', kernelIn], params: KernelParams }
    ),
    async (request, reply) => {
      await registry.remove(request.params.kernelId);
      return reply.code(204).send(null);
    }
  );

  app.post(
    '/api/kernels/:kernelId/interrupt',
    route(
      'Interrupt a kernel',
      {
        204: Done,
        404: NO_KERNEL,
        409: failure('The kernel is being restarted.'),
        500: FAILED
      },
      { access: ['steer', kernelIn], params: KernelParams }
    ),
    async (request, reply) => {
      await registry.get(request.params.kernelId).interrupt();
      return reply.code(204).send(null);
    }
  );

  app.post(
    '/api/kernels/:kernelId/restart',
    route(
      'Restart a kernel',
      { 200: KernelModel, 404: NO_KERNEL, 500: FAILED },
      { access: ['steer', kernelIn], params: KernelParams }
    ),
    async request => kernelModel(await registry.restart(request.params.kernelId))
  );

  app.get(
    '/api/kernels/:kernelId/channels',
    route(
      'WebSocket of a kernel',
      { 404: NO_KERNEL, 426: failure('This path is a WebSocket.') },
      { access: ['read', kernelIn], params: KernelParams }
    ),
    async request => {
      registry.get(request.params.kernelId);
      throw bridgeError('upgrade_required', pathOf(request.url));
    }
  );
}
