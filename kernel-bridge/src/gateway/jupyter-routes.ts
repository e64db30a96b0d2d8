/** Jupyter's REST API: routes that do not concern kernels or sessions. */
import { Type } from '@sinclair/typebox';
import { bridgeError } from '@tpulab/platform/errors.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { failure, notJson, route } from '../http/api-description.js';
import type { App } from '../http/app.js';
import type { BaseUrl } from '../http/base-url.js';
import { BRIDGE_VERSION } from './bridge-version.js';

const IDENTITY = {
  username: 'tpulab',
  name: 'TPULab',
  display_name: 'TPULab',
  initials: 'TL',
  avatar_url: null,
  color: null
};

const Version = Type.Object({ version: Type.String() });

const Status = Type.Object({
  started: Type.String({ format: 'date-time' }),
  last_activity: Type.String({ format: 'date-time' }),
  kernels: Type.Integer({ minimum: 0 }),
  connections: Type.Integer({ minimum: 0 })
});

const Identity = Type.Object({
  identity: Type.Object({
    username: Type.String(),
    name: Type.String(),
    display_name: Type.String(),
    initials: Type.String(),
    avatar_url: Type.Null(),
    color: Type.Null()
  }),
  permissions: Type.Record(Type.String(), Type.Array(Type.String()), {
    description: 'the requested permissions that are granted, and `updatable_fields`: none of the identity'
  })
});

export function addJupyterRoutes(app: App, registry: KernelRegistry, startedAt: Date, base: BaseUrl): void {
  app.get(
    '/',
    route(
      'What this is; the URL that people paste, with ?token=',
      { 200: Type.Object({ name: Type.String(), version: Type.String(), api: Type.String() }) },
      { querystring: Type.Object({ token: Type.Optional(Type.String()) }) }
    ),
    async () => ({ name: 'TPULab server', version: BRIDGE_VERSION, api: base.full('/api') })
  );

  app.get('/api', route('Version', { 200: Version }), async () => ({
    version: BRIDGE_VERSION
  }));

  app.get('/api/status', route('Activity of the whole server', { 200: Status }), async () => {
    const kernels = registry.list();
    const activity = Math.max(startedAt.getTime(), ...kernels.map(kernel => kernel.snapshot.lastActivity));
    return {
      started: startedAt.toISOString(),
      last_activity: new Date(activity).toISOString(),
      kernels: kernels.length,
      connections: kernels.reduce((sum, kernel) => sum + kernel.connections, 0)
    };
  });

  app.get(
    '/api/me',
    route(
      'Who the token belongs to',
      { 200: Identity, 400: failure('`permissions` is not what it should be.') },
      { querystring: Type.Object({ permissions: Type.Optional(Type.String()) }) }
    ),
    async request => ({
      identity: IDENTITY,
      permissions: { ...permissionsOf(request.query.permissions), updatable_fields: [] }
    })
  );

  app.get(
    '/api/spec.yaml',
    route('This description as YAML', { 200: notJson('the description', 'text/x-yaml') }),
    // JSON is valid YAML; a second notation would be a second source of errors.
    async (_request, reply) =>
      reply.type('text/x-yaml; charset=utf-8').send(JSON.stringify(app.swagger(), null, 2))
  );
}

/** The holder of the token may do everything, so all requested permissions are granted. */
function permissionsOf(text: string | undefined): Record<string, string[]> {
  if (text === undefined || text === '') return {};
  try {
    const requested: unknown = JSON.parse(text);
    if (isPermissions(requested)) return requested;
  } catch {
    // The error is the same as for JSON of the wrong shape.
  }
  throw bridgeError(
    'invalid_request',
    'permissions should be a JSON dict of the form {"resource": ["action"]}.'
  );
}

function isPermissions(value: unknown): value is Record<string, string[]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    list => Array.isArray(list) && list.every(item => typeof item === 'string')
  );
}
