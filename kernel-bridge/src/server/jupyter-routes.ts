/** Jupyter's REST, part one: what is not about kernels or sessions. */
import { Type } from '@sinclair/typebox';
import { readFileSync } from 'node:fs';
import { InvalidRequestError } from '../kernels/errors.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import type { App } from './app.js';

/** Clients look at the major version of jupyter_server here to decide what they may expect; we speak version 2. */
const VERSION: string = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;

export const BRIDGE_VERSION = VERSION;

const IDENTITY = {
  username: 'tpulab',
  name: 'TPULab',
  display_name: 'TPULab',
  initials: 'TL',
  avatar_url: null,
  color: null
};

export function addJupyterRoutes(app: App, registry: KernelRegistry, startedAt: Date): void {
  app.get(
    '/api',
    { schema: { summary: 'Version', response: { 200: Type.Object({ version: Type.String() }) } } },
    async () => ({ version: VERSION })
  );

  app.get('/api/status', { schema: { summary: 'Activity of the whole gateway' } }, async () => {
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
    {
      schema: {
        summary: 'Who the token belongs to',
        querystring: Type.Object({ permissions: Type.Optional(Type.String()) })
      }
    },
    async request => ({ identity: IDENTITY, permissions: permissionsOf(request.query.permissions) })
  );
}

/** Whoever has the token may do everything, so what is asked for is granted. */
function permissionsOf(text: string | undefined): Record<string, string[]> {
  if (text === undefined) return {};
  try {
    const asked: unknown = JSON.parse(text);
    if (isPermissions(asked)) return asked;
  } catch {
    // The same answer as for JSON of another shape.
  }
  throw new InvalidRequestError('permissions must be JSON of the form {"resource": ["action"]}.');
}

function isPermissions(value: unknown): value is Record<string, string[]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every(
    list => Array.isArray(list) && list.every(item => typeof item === 'string')
  );
}
