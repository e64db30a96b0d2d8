import { beforeAll, describe, expect, it, vi } from 'vitest';
import { FORWARDED_PATH } from '../remotes/forward/routes.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly tags: readonly string[];
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>;
}

const bridge = gatewayForAll();
let document: {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};

beforeAll(async () => {
  document = (await bridge.rest('GET', '/bridge/v1/openapi.json')).body as typeof document;
});

function operations(): [string, Operation][] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      operation
    ])
  );
}

describe('openapi.json', () => {
  it('has every route with every method, and nothing else', () => {
    const registered = bridge.gateway.routes
      // The routes of a remote are described by its own document.
      .filter(({ method, url }) => method !== 'HEAD' && url !== FORWARDED_PATH)
      .map(({ method, url }) => `${method} ${url.replace(/:(\w+)/g, '{$1}').replace('*', '{*}')}`);
    expect(
      operations()
        .map(([name]) => name)
        .sort()
    ).toEqual([...new Set(registered)].sort());
  });

  it('names each operation once, with a summary and a tag', () => {
    const ids = operations().map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [name, { summary, tags }] of operations()) {
      expect([name, summary]).toEqual([name, expect.stringMatching(/\S/)]);
      expect([name, tags.length]).toEqual([name, 1]);
    }
  });

  it('has the answers that any route can give, with the body of an error', () => {
    for (const [name, { responses }] of operations()) {
      for (const status of ['400', '403', '408', '413', '429', '431', '500', '503']) {
        expect([name, status, responses[status]?.content]).toMatchObject([
          name,
          status,
          { 'application/json': { schema: { required: ['message', 'reason', 'code'] } } }
        ]);
      }
    }
  });

  it('has a success status for each operation, except WebSockets, which are described as such', () => {
    // Two operations have two success statuses: a plan is returned immediately while a run has only begun, and a file is
    // replaced or is new.
    const several = new Map([
      ['POST /bridge/v1/machines/{name}/sync', ['200', '202']],
      ['PUT /bridge/v1/files/{*}', ['200', '201']]
    ]);
    for (const [name, { responses }] of operations()) {
      const good = Object.keys(responses).filter(status => status.startsWith('2') || status === '426');
      expect([name, good]).toEqual([name, several.get(name) ?? [expect.any(String)]]);
    }
  });

  it.each([
    ['GET', '/api/kernels/x'],
    ['GET', '/api/kernels/x/channels'],
    ['DELETE', '/api/kernels/x'],
    ['POST', '/api/kernels/x/interrupt'],
    ['POST', '/api/kernels/x/restart'],
    ['GET', '/api/sessions/x'],
    ['DELETE', '/api/sessions/x'],
    ['GET', '/api/kernelspecs/x'],
    ['GET', '/kernelspecs/x/y'],
    ['GET', '/bridge/v1/events'],
    ['GET', '/bridge/v1/devices'],
    ['GET', '/bridge/v1/devices/history'],
    ['GET', '/bridge/v1/runs'],
    ['GET', '/bridge/v1/runs/x'],
    ['PATCH', '/bridge/v1/runs/x'],
    ['GET', '/bridge/v1/kernels/x/journal'],
    ['GET', '/bridge/v1/kernels/x/outputs']
  ])('%s %s answers with a status that is described', async (method, target) => {
    const { status } = await bridge.rest(method, target);
    const name = `${method} ${target}`;
    const described = operations().find(([pattern]) =>
      new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(name)
    );
    expect(Object.keys(described?.[1].responses ?? {})).toContain(String(status));
  });

  it('is served as YAML too, for clients of Jupyter', async () => {
    const answer = await bridge.rest('GET', '/api/spec.yaml');
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/x-yaml; charset=utf-8']);
    expect(JSON.parse(answer.body as string)).toEqual(document);
  });
});

describe('a method that a path does not support', () => {
  it.each([
    ['PUT', '/api/kernels', 'GET, HEAD, POST'],
    ['PATCH', '/api/kernels/x', 'DELETE, GET, HEAD'],
    ['GET', '/api/kernels/x/restart', 'POST'],
    ['PUT', '/api/sessions/x', 'DELETE, GET, HEAD, PATCH'],
    ['DELETE', '/bridge/v1/health', 'GET, HEAD']
  ])('%s %s is 405 and lists the allowed methods', async (method, target, allowed) => {
    const answer = await bridge.rest(method, target);
    expect(answer).toMatchObject({ status: 405, body: { code: 'method_not_allowed' } });
    expect(answer.headers.get('allow')).toBe(allowed);
  });

  it('OPTIONS without a preflight is 204 with the same list', async () => {
    const answer = await bridge.rest('OPTIONS', '/api/kernels');
    expect([answer.status, answer.headers.get('allow')]).toEqual([204, 'GET, HEAD, POST']);
  });
});
