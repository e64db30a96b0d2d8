/** Our own API, `/bridge/v1`. */
import { Type } from '@sinclair/typebox';
import { Health, PROTOCOL_VERSION, type RemoteNotice } from '@tpulab/protocol';
import { UpgradeRequiredError } from '../kernels/errors.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { failure } from './api-description.js';
import type { App } from './app.js';
import { addControlRoutes } from './control-routes.js';
import { BRIDGE_VERSION } from './jupyter-routes.js';

export interface BridgeRoutesOptions {
  readonly registry: KernelRegistry;
  readonly gatewayId: string;
  readonly startedAt: Date;
  readonly ready: () => boolean;
  readonly notice: () => RemoteNotice | null;
}

export function addBridgeRoutes(app: App, options: BridgeRoutesOptions): void {
  const { registry, gatewayId, startedAt } = options;

  app.get(
    '/bridge/v1/health',
    { schema: { summary: 'Whether the gateway is ready', response: { 200: Health } } },
    async (): Promise<Health> => ({
      status: options.ready() ? 'ok' : 'starting',
      version: BRIDGE_VERSION,
      protocolVersion: PROTOCOL_VERSION,
      gatewayId,
      pid: process.pid,
      startedAt: startedAt.toISOString(),
      kernels: registry.list().length,
      notice: options.notice()
    })
  );

  addControlRoutes(app, registry);

  app.get(
    '/bridge/v1/events',
    {
      schema: {
        summary: 'WebSocket: events of all kernels',
        response: { 426: failure('This path is a WebSocket.') }
      }
    },
    async () => {
      throw new UpgradeRequiredError('/bridge/v1/events');
    }
  );

  app.get(
    '/bridge/v1/openapi.json',
    {
      schema: {
        summary: 'Description of this API',
        response: { 200: Type.Unknown({ description: 'an OpenAPI document' }) }
      }
    },
    async () => app.swagger()
  );
}
