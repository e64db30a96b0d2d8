/** Our own API, `/bridge/v1`. */
import { Type } from '@sinclair/typebox';
import { GatewayIdentity, Health, PROTOCOL_VERSION, type RemoteNotice } from '@tpulab/protocol';
import { UpgradeRequiredError } from '../http/errors.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { failure } from '../http/api-description.js';
import { actorOf } from '../http/access-hooks.js';
import type { App } from '../http/app.js';
import { IDENTITY, proofOf } from '../http/gateway-proof.js';
import { addControlRoutes } from '../kernels/control-routes.js';
import { BRIDGE_VERSION } from './bridge-version.js';

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
    {
      config: { access: ['read'] },
      schema: { summary: 'Whether the server is ready', response: { 200: Health } }
    },
    async (request): Promise<Health> => ({
      status: options.ready() ? 'ok' : 'starting',
      version: BRIDGE_VERSION,
      protocolVersion: PROTOCOL_VERSION,
      gatewayId,
      pid: process.pid,
      startedAt: startedAt.toISOString(),
      kernels: registry.list().length,
      access: actorOf(request.raw)?.rights?.level === 'read' ? 'read' : 'full',
      notice: options.notice()
    })
  );

  addControlRoutes(app, registry);

  app.get(
    '/bridge/v1/events',
    {
      config: { access: ['read'] },
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

const CHALLENGE = '^[0-9a-f]{32,64}$';

export function addIdentityRoute(app: App, key: string): void {
  app.get(
    IDENTITY,
    {
      schema: {
        summary: 'Proves that this is the server whose `proofKey` the client knows. Needs no token',
        security: [],
        querystring: Type.Object({ challenge: Type.String({ pattern: CHALLENGE }) }),
        response: { 200: GatewayIdentity }
      }
    },
    async ({ query }): Promise<GatewayIdentity> => ({ proof: proofOf(key, query.challenge) })
  );
}
