/** Our own API, `/bridge/v1`. */
import { Type } from '@sinclair/typebox';
import {
  ControlAnswer,
  ControlCommand,
  GatewayIdentity,
  Health,
  PROTOCOL_VERSION,
  type RemoteNotice
} from '@tpulab/protocol';
import { actorOf, kernelIn } from '../http/access-hooks.js';
import { failure, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import { bridgeError } from '@tpulab/platform/errors.js';
import { IDENTITY, proofOf } from '../http/gateway-proof.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { BRIDGE_VERSION } from './bridge-version.js';

interface BridgeRoutesOptions {
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
    route('Whether the server is ready', { 200: Health }, { access: ['read'] }),
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
    route(
      'WebSocket: events of all kernels',
      { 426: failure('This path is a WebSocket.') },
      { access: ['read'] }
    ),
    async () => {
      throw bridgeError('upgrade_required', '/bridge/v1/events');
    }
  );

  app.get(
    '/bridge/v1/openapi.json',
    route('Description of this API', { 200: Type.Unknown({ description: 'an OpenAPI document' }) }),
    async () => app.swagger()
  );
}

const CHALLENGE = '^[0-9a-f]{32,64}$';

export function addIdentityRoute(app: App, key: string): void {
  app.get(
    IDENTITY,
    route(
      'Proves that this is the server whose `proofKey` the client knows. Needs no token',
      { 200: GatewayIdentity },
      { security: [], querystring: Type.Object({ challenge: Type.String({ pattern: CHALLENGE }) }) }
    ),
    async ({ query }): Promise<GatewayIdentity> => ({ proof: proofOf(key, query.challenge) })
  );
}

/** Steering runs (`/bridge/v1/kernels/:id/control`). The events socket later sends the result of a command (topic runs). */
function addControlRoutes(app: App, registry: KernelRegistry): void {
  app.post(
    '/bridge/v1/kernels/:kernelId/control',
    route(
      'Control a run of a kernel while its cell is busy',
      {
        200: ControlAnswer,
        404: failure('No kernel has this id.'),
        409: failure('This kernel accepts no commands for runs.'),
        504: failure('The kernel did not answer; send the command again with the same id.')
      },
      {
        access: ['steer', kernelIn],
        description:
          'Pause, resume, stop after this step, set a hyperparameter, checkpoint, evaluate, sample, or free memory. The answer says whether the command was accepted or refused; it is applied at the end of the running step, and reported as a `control` message on the events socket. A command is applied once, however often it is sent with the same id.',
        params: Type.Object({ kernelId: Type.String() }),
        body: ControlCommand
      }
    ),
    async request => registry.get(request.params.kernelId).control(request.body)
  );
}
