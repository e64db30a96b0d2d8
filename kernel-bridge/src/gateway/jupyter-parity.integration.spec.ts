/**
 * The same requests to the bridge and to a stock jupyter_server. Intended differences are listed with
 * their reasons, and both sides are checked, so that a change of either is detected.
 */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { JupyterServer } from '../testing/jupyter-server.js';
import { TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

/** A server that does not answer is a separate failure, with the name of the request. */
const ANSWER_MS = 180_000;

interface Step {
  readonly status: number;
  readonly location: string | null;
  readonly type: string | null;
  readonly body: unknown;
}

type Ask = (name: string, method: string, target: string, body?: unknown, text?: string) => Promise<Step>;

/** Sends all requests, in this order, to either server. */
async function conversation(request: Ask): Promise<void> {
  await request('[1] version', 'GET', '/api');
  await request('[1] version with a cache-buster', 'GET', '/api?1700000000000');
  await request('[1] status', 'GET', '/api/status');
  await request('[1] identity', 'GET', '/api/me');
  const requested = encodeURIComponent('{"kernels":["execute"],"contents":["read"]}');
  await request('[1] identity with permissions', 'GET', `/api/me?permissions=${requested}`);
  await request('[1] identity with malformed permissions', 'GET', '/api/me?permissions=x');
  await request('[1] description', 'GET', '/api/spec.yaml');
  await request('[2] kernelspecs', 'GET', '/api/kernelspecs?1700000000000');
  await request('[2] a kernelspec', 'GET', '/api/kernelspecs/python3');
  await request('[2] an unknown kernelspec', 'GET', '/api/kernelspecs/nope');
  await request('[2] a logo', 'GET', '/kernelspecs/python3/logo-svg.svg');
  await request('[2] a logo that is not there', 'GET', '/kernelspecs/python3/logo-64x64.png');

  await request('[3] no kernels', 'GET', '/api/kernels?1700000000000');
  const made = await request('[3] start', 'POST', '/api/kernels', { name: 'python3' });
  const { id } = made.body as { id: string };
  await request('[3] kernels', 'GET', '/api/kernels');
  await request('[3] a kernel', 'GET', `/api/kernels/${id}`);
  await request('[3] interrupt', 'POST', `/api/kernels/${id}/interrupt`);
  await request('[3] restart', 'POST', `/api/kernels/${id}/restart`);
  await request('[3] a chosen id that is taken', 'POST', '/api/kernels', { name: 'python3', kernel_id: id });
  await request('[3] shutdown', 'DELETE', `/api/kernels/${id}`);
  await request('[3] a kernel that has gone', 'GET', `/api/kernels/${id}`);
  await request('[3] shutdown of a kernel that has gone', 'DELETE', `/api/kernels/${id}`);
  await request('[3] interrupt of a kernel that has gone', 'POST', `/api/kernels/${id}/interrupt`);
  await request('[3] restart of a kernel that has gone', 'POST', `/api/kernels/${id}/restart`);
  await request('[3] start of an unknown kernelspec', 'POST', '/api/kernels', { name: 'nope' });
  await request('[3] start with a malformed body', 'POST', '/api/kernels', undefined, '{"name":');
  const standard = await request('[3] start without a body', 'POST', '/api/kernels');
  await request(
    '[3] shutdown of the default',
    'DELETE',
    `/api/kernels/${(standard.body as { id: string }).id}`
  );
  const chosen = randomUUID();
  const own = await request('[3] start with a chosen id', 'POST', '/api/kernels', {
    name: 'python3',
    kernel_id: chosen
  });
  expect((own.body as { id: string }).id).toBe(chosen);
  await request('[3] shutdown of the chosen one', 'DELETE', `/api/kernels/${chosen}`);
  const lost = await request('[3] start in a folder that does not exist', 'POST', '/api/kernels', {
    name: 'python3',
    path: 'no/where'
  });
  await request('[3] shutdown of that one', 'DELETE', `/api/kernels/${(lost.body as { id: string }).id}`);

  const notebook = { path: 'a.ipynb', type: 'notebook', name: 'a', kernel: { name: 'python3' } };
  await request('[4] no sessions', 'GET', '/api/sessions?1700000000000');
  const session = await request('[4] a session is made', 'POST', '/api/sessions', notebook);
  const { id: sessionId } = session.body as { id: string };
  const again = await request('[4] the same path again', 'POST', '/api/sessions', notebook);
  expect((again.body as { id: string }).id).toBe(sessionId);
  const target = `/api/sessions/${sessionId}`;
  await request('[4] sessions', 'GET', '/api/sessions');
  await request('[4] a session', 'GET', target);
  await request('[4] another path', 'PATCH', target, { path: 'b.ipynb' });
  await request('[4] another name and type', 'PATCH', target, { name: 'c', type: 'console' });
  await request('[4] the old form of a change', 'PATCH', target, { notebook: { path: 'd.ipynb' } });
  await request('[4] a kernel that does not exist', 'PATCH', target, { kernel: { id: randomUUID() } });
  await request('[4] a kernelspec that does not exist', 'PATCH', target, { kernel: { name: 'nope' } });
  await request('[4] a change without a body', 'PATCH', target);
  const changed = await request('[4] another kernel by name', 'PATCH', target, {
    kernel: { name: 'lossless' }
  });
  expect((changed.body as { kernel: { name: string } }).kernel.name).toBe('lossless');
  await request('[4] no path', 'POST', '/api/sessions', { type: 'notebook' });
  await request('[4] no type', 'POST', '/api/sessions', { path: 'x' });
  await request('[4] no body', 'POST', '/api/sessions');
  await request('[4] an unknown kernelspec', 'POST', '/api/sessions', {
    path: 'x',
    type: 'notebook',
    kernel: { name: 'nope' }
  });
  await request('[4] delete', 'DELETE', target);
  for (const [what, method] of [
    ['show', 'GET'],
    ['delete', 'DELETE'],
    ['change', 'PATCH']
  ] as const) {
    await request(
      `[4] ${what} one that has gone`,
      method,
      target,
      method === 'PATCH' ? { path: 'x' } : undefined
    );
  }
  const old = await request('[4] the old form', 'POST', '/api/sessions', {
    notebook: { path: 'old.ipynb' },
    kernel: { name: 'python3' }
  });
  await request('[4] delete the old form', 'DELETE', `/api/sessions/${(old.body as { id: string }).id}`);
  const orphan = await request('[4] a session whose kernel will go', 'POST', '/api/sessions', {
    ...notebook,
    path: 'o'
  });
  const { id: orphanId, kernel } = orphan.body as { id: string; kernel: { id: string } };
  await request('[4] its kernel goes', 'DELETE', `/api/kernels/${kernel.id}`);
  await request('[4] delete a session whose kernel has gone', 'DELETE', `/api/sessions/${orphanId}`);

  await request('[5] a method that a route does not take', 'PUT', '/api/kernels');
  await request('[6] a path that neither has', 'GET', '/api/nothing');
  await request('[6] files', 'GET', '/api/contents');
  await request('[6] terminals', 'GET', '/api/terminals');
}

/** Statuses that differ on purpose: jupyter_server's, ours, and the reason. */
const DIFFERENCES: Readonly<Record<string, readonly [number, number, string]>> = {
  '[3] a chosen id that is taken': [
    201,
    409,
    'who asks for a new kernel must not be handed one that is in use'
  ],
  '[3] restart of a kernel that has gone': [500, 404, 'nothing has failed here; there is no such kernel'],
  '[3] start of an unknown kernelspec': [500, 501, 'the same answer as for a session, which clients show'],
  '[4] delete a session whose kernel has gone': [404, 410, 'the answer that clients of either age expect'],
  '[6] files': [200, 404, 'the bridge serves kernels, not files']
};

async function record(url: string): Promise<ReadonlyMap<string, Step>> {
  const steps = new Map<string, Step>();
  await conversation(async (name, method, target, body, text) => {
    const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(url.replace(/\/$/, '') + target, {
      method,
      headers: { authorization: `token ${TOKEN}` },
      signal: AbortSignal.timeout(ANSWER_MS),
      ...(sent === undefined ? {} : { body: sent })
    });
    const type = response.headers.get('content-type')?.split(';')[0] ?? null;
    const answer = await response.text();
    const step = {
      status: response.status,
      location: response.headers.get('location')?.replace(/[0-9a-f-]{36}/, 'ID') ?? null,
      type,
      body: type === 'application/json' && answer !== '' ? (JSON.parse(answer) as unknown) : answer
    };
    expect(steps.has(name)).toBe(false);
    steps.set(name, step);
    return step;
  });
  return steps;
}

let jupyter: ReadonlyMap<string, Step>;
let bridge: ReadonlyMap<string, Step>;

beforeAll(async () => {
  await using server = await JupyterServer.start();
  await using gateway = await TemporaryGateway.start();
  await gateway.gateway.ready;
  [jupyter, bridge] = await Promise.all([record(server.url), record(gateway.url)]);
});

/** Every field of Jupyter's answer is in ours too, with the same type. */
function expectShape(name: string, theirs: unknown, ours: unknown): void {
  if (theirs === null || ours === null) return;
  if (Array.isArray(theirs)) {
    expect([name, Array.isArray(ours)]).toEqual([name, true]);
    // A list that is empty on either side gives no information about its items.
    if (theirs.length > 0 && (ours as unknown[]).length > 0)
      expectShape(name, theirs[0], (ours as unknown[])[0]);
    return;
  }
  expect([name, typeof ours]).toEqual([name, typeof theirs]);
  if (typeof theirs !== 'object') return;
  for (const [key, value] of Object.entries(theirs)) {
    expect([name, Object.keys(ours as object)]).toEqual([name, expect.arrayContaining([key])]);
    expectShape(`${name}.${key}`, value, (ours as Record<string, unknown>)[key]);
  }
}

describe('the bridge compared with jupyter_server', () => {
  it('gives every request the same status, except for listed differences', () => {
    const different = [...jupyter].flatMap(([name, { status }]) => {
      const ours = bridge.get(name)?.status;
      return ours === status ? [] : [[name, [status, ours]]];
    });
    const listed = Object.entries(DIFFERENCES).map(([name, [theirs, ours]]) => [name, [theirs, ours]]);
    expect(Object.fromEntries(different)).toEqual(Object.fromEntries(listed));
  });

  it('returns the same Location', () => {
    for (const [name, { location }] of jupyter) {
      if (name in DIFFERENCES) continue;
      expect([name, bridge.get(name)?.location]).toEqual([name, location]);
    }
  });

  it("returns successful answers with all of Jupyter's fields, of the same types", () => {
    for (const [name, { status, body }] of jupyter) {
      if (status >= 300 || name === '[1] description' || name in DIFFERENCES) continue;
      expectShape(name, body, bridge.get(name)?.body);
    }
  });

  it('[5] returns errors as JSON with a message and a reason, like Jupyter', () => {
    let errors = 0;
    for (const [name, { status, type, body }] of bridge) {
      if (status < 400) continue;
      errors += 1;
      expect([name, type, body]).toEqual([
        name,
        'application/json',
        expect.objectContaining({ message: expect.stringMatching(/\S/) as string })
      ]);
      if (name in DIFFERENCES) continue;
      const theirs = jupyter.get(name)?.body;
      if (typeof theirs === 'object' && theirs !== null) {
        const own = Object.keys(theirs).filter(key => key !== 'traceback');
        expect([name, Object.keys(body as object)]).toEqual([name, expect.arrayContaining(own)]);
      }
    }
    expect(errors).toBeGreaterThan(15);
  });
});
