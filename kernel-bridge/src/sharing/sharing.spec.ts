import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { NewShare, ShareList } from '@tpulab/protocol';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { PUBLIC_PAGES } from '../http/access-hooks.js';
import { IDENTITY } from '../http/gateway-proof.js';
import { TokenStore } from '../http/token-store.js';
import { expireSoon } from '../http/testing/expire-soon.js';
import { EventsPage } from '../telemetry/testing/events-page.js';
import type { ChannelsClient } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const NOTEBOOK = 'shown.ipynb';
const bridge = gatewayForAll();
/** Kernels of the shared notebook and of another one. */
let kernelId: string;
let otherId: string;
let share: NewShare;

async function startSession(name: string): Promise<string> {
  await writeFile(
    path.join(bridge.folder, name),
    '{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}'
  );
  const body = { path: name, type: 'notebook', name, kernel: { name: 'python3' } };
  const answer = await bridge.rest('POST', '/api/sessions', { body });
  return (answer.body as { kernel: { id: string } }).kernel.id;
}

async function makeShare(): Promise<NewShare> {
  const body = { path: NOTEBOOK, expiresInHours: 1 };
  const answer = await bridge.rest('POST', '/bridge/v1/links', { body });
  expect(answer.status).toBe(201);
  return answer.body as NewShare;
}

const read = (target: string, method = 'GET') => bridge.rest(method, target, { token: share.token });
const reader = (options: object = {}): Promise<ChannelsClient> =>
  bridge.connect(kernelId, { token: share.token, ...options });

beforeAll(async () => {
  kernelId = await startSession(NOTEBOOK);
  otherId = await startSession('other.ipynb');
  share = await makeShare();
});

describe('the link to a notebook', () => {
  it('gives access to the routes that show that notebook, and to no other, whatever the method', async () => {
    const concrete = (pattern: string, id: string): string =>
      pattern.replace(':kernelId', id).replace(/:\w+/g, 'x').replace('*', NOTEBOOK);
    const opened = async (id: string): Promise<string[]> => {
      const found: string[] = [];
      for (const { method, url } of bridge.gateway.routes) {
        if (url === IDENTITY || PUBLIC_PAGES.test(url)) continue;
        const answer = await read(concrete(url, id), method);
        if (answer.status !== 403) found.push(`${method} ${url}`);
        else if (method !== 'HEAD') expect(answer.body).toMatchObject({ code: 'read_only' });
      }
      return found.filter(route => !route.startsWith('HEAD ')).sort();
    };
    const always = [
      'GET /api/kernels',
      'GET /api/kernelspecs',
      'GET /api/sessions',
      'GET /bridge/v1/events',
      'GET /bridge/v1/files/*',
      'GET /bridge/v1/health',
      'GET /bridge/v1/machines',
      'GET /bridge/v1/page-key'
    ];
    const ofKernel = [
      'GET /api/kernels/:kernelId',
      'GET /api/kernels/:kernelId/channels',
      'GET /bridge/v1/kernels/:kernelId/outputs'
    ];
    expect(await opened(kernelId)).toEqual([...always, ...ofKernel].sort());
    expect(await opened(otherId)).toEqual(always);
  });

  it.each(['other.ipynb', 'x%2F..%2Fshown.ipynb', 'shown.ipynb/', '%73hown.ipynb%00', '%zz', ''])(
    'opens no other file (%s)',
    async name => expect((await read(`/bridge/v1/files/${name}`)).status).toBe(403)
  );

  it('lists only data of the notebook, and reports that it may read', async () => {
    expect((await read('/api/sessions')).body).toMatchObject([{ path: NOTEBOOK, kernel: { id: kernelId } }]);
    expect((await read('/api/kernels')).body).toMatchObject([{ id: kernelId }]);
    const specs = JSON.stringify((await read('/api/kernelspecs')).body);
    expect(specs).toContain('"display_name"');
    expect(specs).not.toContain('{connection_file}');
    expect((await read('/bridge/v1/machines')).body).toEqual({ remotes: [] });
    expect((await read('/bridge/v1/health')).body).toMatchObject({ access: 'read' });
  });

  it('receives events of its kernel, and none of others', async () => {
    using page = new EventsPage(bridge, share.token);
    await page.subscribe({ op: 'subscribe', topics: ['kernels', 'clients', 'remotes', 'steps'] });
    using owner = await bridge.connect(otherId);
    using watched = await bridge.connect(kernelId);
    await owner.run('1');
    // A very short cell may end before its state is sent; this one waits.
    const request = watched.execute('input()', { allow_stdin: true });
    await vi.waitFor(() => expect(JSON.stringify(page.frames)).toContain('"busy"'), 60_000);
    // The kernel discards input that arrived before its prompt, and it is busy slightly earlier.
    await watched.first(({ header }) => header.msg_type === 'input_request');
    watched.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await watched.done(request);
    const reported = JSON.stringify(page.frames);
    expect(reported).toContain(kernelId);
    expect(reported).not.toContain(otherId);
    expect(reported).not.toContain('"clients","kernelId"');
  });
});

describe('a reader on the channels', () => {
  it("sees others' executions live", async () => {
    using owner = await bridge.connect(kernelId);
    using looking = await reader({ protocols: [NUMBERED_SUBPROTOCOL], resume: 0 });
    const id = owner.execute("print('for all')");
    await owner.done(id);
    await looking.until(() => looking.printed(id) === 'for all\n');
    expect(looking.answers(id).filter(({ channel }) => channel === 'shell')).toEqual([]);
  });

  it.each(['v1.kernel.websocket.jupyter.org', NUMBERED_SUBPROTOCOL])(
    'gets nothing to the kernel, by no message and no channel (%s)',
    async protocol => {
      using owner = await bridge.connect(kernelId);
      await owner.run(
        'from comm import get_comm_manager\ntouched = []\n' +
          'get_comm_manager().register_target("t", lambda comm, m: touched.append("comm"))'
      );
      using looking = await reader({ protocols: [protocol] });
      const request = owner.execute("touched.append(input('? '))", { allow_stdin: true });
      await owner.first(
        ({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === request
      );
      const sent = [
        looking.execute("touched.append('ran')"),
        looking.send('shell', 'comm_open', { comm_id: 'c', target_name: 't', data: {} }),
        looking.send('shell', 'comm_msg', { comm_id: 'c', data: {} }),
        looking.send('shell', 'complete_request', { code: 'tou', cursor_pos: 3 }),
        looking.send('shell', 'inspect_request', { code: 'touched', cursor_pos: 3, detail_level: 0 }),
        looking.send('control', 'interrupt_request', {}),
        looking.send('control', 'shutdown_request', { restart: true }),
        looking.send('control', 'debug_request', { type: 'request', seq: 1, command: 'debugInfo' }),
        looking.send('control', 'create_subshell_request', {}),
        looking.send('stdin', 'input_reply', { value: 'from the reader', status: 'ok' })
      ];
      const refusal = await looking.first(
        ({ parent, channel }) => parent.msg_id === sent[0] && channel === 'shell'
      );
      expect(refusal.metadata).toMatchObject({ tpulab: { code: 'read_only' } });
      const last = await looking.first(
        ({ parent, channel }) => parent.msg_id === sent[8] && channel === 'control'
      );
      expect(last.content).toMatchObject({ status: 'error', ename: 'read_only' });
      owner.send('stdin', 'input_reply', { value: 'from the owner', status: 'ok' });
      await owner.done(request);
      const answers = await owner.run('print(touched)');
      expect(owner.printed(answers[0]?.parent.msg_id ?? '')).toBe("['from the owner']\n");
      const journal = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/journal?from=1&limit=1000`);
      for (const id of sent) expect(JSON.stringify(journal.body)).not.toContain(id);
    }
  );

  it('replaces no client whose session it names, and gets none of its replies', async () => {
    using owner = await bridge.connect(kernelId);
    await owner.run('1');
    using looking = await reader({ sessionId: owner.sessionId, query: `?predecessor=${owner.sessionId}` });
    const id = owner.execute("print(input('who? '))", { allow_stdin: true });
    await owner.first(({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === id);
    owner.send('stdin', 'input_reply', { value: 'me', status: 'ok' });
    await owner.done(id);
    await looking.until(() => looking.printed(id) === 'me\n');
    expect(owner.closed).toBeNull();
    expect(looking.messages.filter(({ channel }) => channel === 'stdin' || channel === 'shell')).toEqual([]);
  });

  it('may request the kernel info once, and does not count as a user of the kernel', async () => {
    using looking = await reader();
    const info = await looking.request('shell', 'kernel_info_request');
    expect(info.content).toMatchObject({ status: 'ok' });
    const again = await looking.request('shell', 'kernel_info_request');
    expect(again.content).toMatchObject({ ename: 'read_only' });
    const kernel = async (): Promise<unknown> => (await bridge.rest('GET', `/api/kernels/${kernelId}`)).body;
    await vi.waitFor(async () => expect(await kernel()).toMatchObject({ connections: 0 }), 60_000);
  });

  it('cannot attach to a kernel of another notebook', async () => {
    await expect(bridge.connect(otherId, { token: share.token })).rejects.toThrow();
  });
});

describe('links', () => {
  it('are listed without their tokens, and end when they are revoked: sockets too', async () => {
    const made = await makeShare();
    using looking = await bridge.connect(kernelId, { token: made.token });
    const listed = (await bridge.rest('GET', '/bridge/v1/links')).body as ShareList;
    expect(listed.shares.map(({ name }) => name)).toEqual([share.name, made.name]);
    expect(JSON.stringify(listed)).not.toContain(made.token);
    expect((await bridge.rest('DELETE', `/bridge/v1/links/${made.name}`)).status).toBe(204);
    expect(await looking.untilClosed()).toMatchObject({ code: 1008 });
    expect((await bridge.rest('GET', '/bridge/v1/health', { token: made.token })).body).toMatchObject({
      code: 'unauthorized'
    });
    expect((await bridge.rest('DELETE', `/bridge/v1/links/${made.name}`)).body).toMatchObject({
      code: 'share_not_found'
    });
  });

  it('expire, and are refused for a missing file; tokens of clients are not links', async () => {
    const store = new TokenStore(bridge.folder);
    const { token } = await store.create('brief', new Date(Date.now() + 3_600_000), { reads: NOTEBOOK });
    using looking = await bridge.connect(kernelId, { token });
    await expireSoon(bridge.folder, 'brief');
    expect(await looking.untilClosed()).toMatchObject({ code: 1008 });
    await store.create('a-client', null);
    expect((await bridge.rest('DELETE', '/bridge/v1/links/a-client')).status).toBe(404);
    for (const [name, status] of [
      ['gone.ipynb', 404],
      ['../x.ipynb', 400],
      ['tokens.json', 400]
    ] as const) {
      const body = { path: name, expiresInHours: 1 };
      expect((await bridge.rest('POST', '/bridge/v1/links', { body })).status).toBe(status);
    }
  });
});
