/** `/api/kernels`. */
import { Type } from '@sinclair/typebox';
import { InvalidRequestError, UpgradeRequiredError } from '../kernels/errors.js';
import { isKernelId, type KernelRegistry } from '../kernels/kernel-registry.js';
import { KernelModel, kernelModel } from '../kernels/kernel-model.js';
import type { App } from './app.js';
import { pathOf } from './authentication.js';

const Nullable = Type.Union([Type.String(), Type.Null()]);

/** Fields that are not named here are Jupyter's business and are ignored. */
export const KernelRequest = Type.Object({
  name: Type.Optional(Nullable),
  path: Type.Optional(Nullable),
  kernel_id: Type.Optional(Nullable),
  env: Type.Optional(Type.Record(Type.String(), Type.String()))
});

const KernelParams = Type.Object({ kernelId: Type.String() });

export function addKernelRoutes(app: App, registry: KernelRegistry): void {
  app.get(
    '/api/kernels',
    { schema: { summary: 'Running kernels', response: { 200: Type.Array(KernelModel) } } },
    async () => registry.list().map(kernelModel)
  );

  app.post(
    '/api/kernels',
    {
      schema: {
        summary: 'Start a kernel',
        body: Type.Optional(Type.Union([KernelRequest, Type.Null(), Type.Undefined()])),
        response: { 201: KernelModel }
      }
    },
    async (request, reply) => {
      const body = request.body ?? {};
      const kernelId = body.kernel_id ?? null;
      if (kernelId !== null && !isKernelId(kernelId))
        throw new InvalidRequestError('kernel_id must be a UUID.');
      const { name, path, env } = body;
      const kernel = await registry.start({ name, path, env, kernelId: kernelId?.toLowerCase() });
      return reply.code(201).header('location', `/api/kernels/${kernel.id}`).send(kernelModel(kernel));
    }
  );

  app.get(
    '/api/kernels/:kernelId',
    { schema: { summary: 'One kernel', params: KernelParams, response: { 200: KernelModel } } },
    async request => kernelModel(registry.get(request.params.kernelId))
  );

  app.delete(
    '/api/kernels/:kernelId',
    { schema: { summary: 'Shut a kernel down', params: KernelParams } },
    async (request, reply) => {
      await registry.remove(request.params.kernelId);
      return reply.code(204).send();
    }
  );

  app.post(
    '/api/kernels/:kernelId/interrupt',
    { schema: { summary: 'Interrupt a kernel', params: KernelParams } },
    async (request, reply) => {
      await registry.get(request.params.kernelId).interrupt();
      return reply.code(204).send();
    }
  );

  app.post(
    '/api/kernels/:kernelId/restart',
    { schema: { summary: 'Restart a kernel', params: KernelParams, response: { 200: KernelModel } } },
    async request => kernelModel(await registry.restart(request.params.kernelId))
  );

  app.get(
    '/api/kernels/:kernelId/channels',
    { schema: { summary: 'WebSocket of a kernel', params: KernelParams } },
    async request => {
      registry.get(request.params.kernelId);
      throw new UpgradeRequiredError(pathOf(request.url));
    }
  );
}
