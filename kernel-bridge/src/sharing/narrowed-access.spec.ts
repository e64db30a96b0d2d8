/** What a link shows of a kernel that other notebooks use, what its holder may use, and what each level of rights permits. */
import { rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { NewShare } from '@tpulab/protocol';
import { describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Rights } from '../http/rights.js';
import { TokenStore } from '../http/token-store.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const bridge = gatewayForAll();

const notebook = (...ids: string[]): string =>
  JSON.stringify({
    cells: ids.map(id => ({
      id,
      cell_type: 'code',
      source: '',
      outputs: [],
      metadata: {},
      execution_count: null
    })),
    metadata: {},
    nbformat: 4,
    nbformat_minor: 5
  });

const save = (name: string, ...ids: string[]): Promise<void> =>
  writeFile(path.join(bridge.folder, name), notebook(...ids));

async function sessionOf(name: string, kernelId?: string): Promise<string> {
  const kernel = kernelId === undefined ? { name: 'python3' } : { id: kernelId };
  const { status, body } = await bridge.rest('POST', '/api/sessions', {
    body: { path: name, type: 'notebook', kernel }
  });
  expect(status).toBe(201);
  return (body as { kernel: { id: string } }).kernel.id;
}

async function share(name: string): Promise<string> {
  const { body } = await bridge.rest('POST', '/bridge/v1/links', {
    body: { path: name, expiresInHours: 1 }
  });
  return (body as NewShare).token;
}

const inCell = (cellId: string): object => ({ cellId });

describe('the view of a kernel that two notebooks use', () => {
  it('has executions of the shared one, and of the other no code, outputs, questions, answers, sessions or steps', async () => {
    await save('a.ipynb', 'a1', 'a2', 'both');
    await save('b.ipynb', 'b1', 'both');
    const kernelId = await sessionOf('a.ipynb');
    await sessionOf('b.ipynb', kernelId);
    using ofA = await bridge.connect(kernelId, { sessionId: 'session-of-a' });
    using ofB = await bridge.connect(kernelId, { sessionId: 'session-of-b' });
    await ofA.done(ofA.execute("print('CLEARED' + '-OF-A')", {}, inCell('a2')));
    await ofA.done(ofA.execute("print('SAVED-OF-A')", {}, inCell('a1')));
    // The output of cell a2 was cleared, and the notebook was saved without it.
    await save('a.ipynb', 'a1', 'a2', 'both');
    const token = await share('a.ipynb');

    const seen: string[] = [];
    const views = await Promise.all(
      [{}, { resume: 0 }, { sessionId: 'session-of-b' }, { sessionId: 'session-of-b', resume: 0 }].map(how =>
        bridge.connect(kernelId, { token, query: '?predecessor=session-of-b', ...how })
      )
    );
    const request = ofB.execute(
      "secret = 'CODE-OF-B'\nprint('OUTPUT-OF-B')\nprint(input('QUESTION-OF-B '))",
      { allow_stdin: true },
      inCell('b1')
    );
    await ofB.first(({ header }) => header.msg_type === 'input_request');
    ofB.send('stdin', 'input_reply', { value: 'ANSWER-OF-B', status: 'ok' });
    await ofB.done(request);
    await ofB.done(ofB.execute("print('COPIED-OF-B')", {}, inCell('both')));
    await ofB.done(ofB.execute("print('CONSOLE-OF-B')"));
    const last = ofA.execute("print('OUTPUT-OF-A')", {}, inCell('a1'));
    await ofA.done(last);
    for (const view of views) {
      await view.until(() => view.printed(last) === 'OUTPUT-OF-A\n');
      seen.push(JSON.stringify(view.messages));
      view[Symbol.dispose]();
    }
    const outputs = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/outputs`, { token });
    expect(outputs.status).toBe(200);
    seen.push(JSON.stringify(outputs.body));
    expect(seen.at(-1)).toContain('OUTPUT-OF-A');
    for (const secret of ['-OF-B', 'session-of-b', 'b.ipynb', 'CLEARED-OF-A', 'SAVED-OF-A'])
      for (const text of seen) expect(text).not.toContain(secret);
    for (const target of ['journal?from=1', 'journal/stream?from=1'])
      expect((await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/${target}`, { token })).status).toBe(
        403
      );
  });

  it('has the whole output of a cell that ran when the link was made, and nothing of the process before a restart', async () => {
    await save('long.ipynb', 'l1', 'l2');
    const kernelId = await sessionOf('long.ipynb');
    using owner = await bridge.connect(kernelId);
    await owner.done(owner.execute("print('EARLIER-PROCESS')", {}, inCell('l2')));
    await bridge.rest('POST', `/api/kernels/${kernelId}/restart`);
    const running = owner.execute(
      "print('BEFORE')\ninput()\nprint('AFTER')",
      { allow_stdin: true },
      inCell('l1')
    );
    await owner.first(
      ({ header, parent }) => header.msg_type === 'input_request' && parent.msg_id === running
    );
    const token = await share('long.ipynb');
    using view = await bridge.connect(kernelId, { token, resume: 0 });
    await view.until(() => view.printed(running) === 'BEFORE\n');
    owner.send('stdin', 'input_reply', { value: '', status: 'ok' });
    await owner.done(running);
    await view.until(() => view.printed(running) === 'BEFORE\nAFTER\n');
    const { body } = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/outputs`, { token });
    expect(JSON.stringify(body)).toContain('AFTER');
    expect(JSON.stringify([body, view.messages])).not.toContain('EARLIER-PROCESS');
  });
});

describe('the view of one notebook', () => {
  it('has output that other code puts into its displays, and output without a cell while no other document uses the kernel', async () => {
    await save('shown.ipynb', 's1', 's2');
    const kernelId = await sessionOf('shown.ipynb');
    const token = await share('shown.ipynb');
    using owner = await bridge.connect(kernelId);
    using view = await bridge.connect(kernelId, { token });
    await owner.done(owner.execute("shown = display('FIRST', display_id=True)", {}, inCell('s1')));
    await owner.done(owner.execute("shown.update('LATER')\nprint('WITHOUT-A-CELL')"));
    const saw = (text: string): boolean => JSON.stringify(view.messages).includes(text);
    await view.until(() => saw('FIRST') && saw('LATER') && saw('WITHOUT-A-CELL'));
    await sessionOf('beside.ipynb', kernelId);
    await owner.done(owner.execute("shown.update('FROM-BESIDE')\nprint('OF-WHOM')"));
    await owner.done(owner.execute("print('LAST')", {}, inCell('s2')));
    await view.until(() => saw('LAST'));
    const { body } = await bridge.rest('GET', `/bridge/v1/kernels/${kernelId}/outputs`, { token });
    expect(JSON.stringify(body)).toContain('FROM-BESIDE');
    expect(JSON.stringify([body, view.messages])).not.toContain('OF-WHOM');
  });
});

describe('a link', () => {
  it('ends with its notebook: a later notebook at its path is not shared, but a saved version of it is', async () => {
    const file = path.join(bridge.folder, 'moved.ipynb');
    await save('moved.ipynb', 'm1', 'm2');
    const token = await share('moved.ipynb');
    const read = async (): Promise<number> =>
      (await bridge.rest('GET', '/bridge/v1/files/moved.ipynb', { token })).status;
    expect(await read()).toBe(200);
    // As many editors save: another file replaces the name.
    await save('draft', 'm2', 'm3');
    await rename(path.join(bridge.folder, 'draft'), file);
    expect(await read()).toBe(200);
    // As the session page saves; the new contents have none of the earlier cells.
    const saved = await bridge.rest('PUT', '/bridge/v1/files/moved.ipynb', {
      body: JSON.parse(notebook('m9')) as object,
      headers: {
        'if-match': (await bridge.rest('GET', '/bridge/v1/files/moved.ipynb')).headers.get('etag') ?? ''
      }
    });
    expect(saved.status).toBe(200);
    expect(await read()).toBe(200);
    await rename(file, path.join(bridge.folder, 'elsewhere.ipynb'));
    expect(await read()).toBe(403);
    await save('moved.ipynb', 'n1');
    expect(await read()).toBe(403);
    expect((await bridge.rest('GET', '/bridge/v1/files/elsewhere.ipynb', { token })).status).toBe(403);
    await rm(file);
  });

  it('has its own limit of 16 sockets and 64 KiB a message, and the owner still gets a socket', async () => {
    await save('many.ipynb', 'x');
    const kernelId = await sessionOf('many.ipynb');
    const token = await share('many.ipynb');
    const open = await Promise.all(Array.from({ length: 16 }, () => bridge.connect(kernelId, { token })));
    await expect(bridge.connect(kernelId, { token })).rejects.toThrow();
    using owner = await bridge.connect(kernelId);
    await owner.run('1');
    open[0]?.sendRaw(Buffer.alloc(64 * 1024 + 1));
    expect(await open[0]?.untilClosed()).toMatchObject({ code: 1009 });
    for (const each of open) each[Symbol.dispose]();
    const events = new WebSocket(`${bridge.url.replace('http', 'ws')}bridge/v1/events?token=${token}`);
    const closed = new Promise<number>(resolve => events.on('close', code => resolve(code)));
    events.on('open', () => events.send('x'.repeat(64 * 1024 + 1)));
    expect(await closed).toBe(1009);
  });
});

describe('a token with rights', () => {
  const made = async (name: string, rights: Rights): Promise<string> =>
    (await new TokenStore(bridge.folder).create(name, null, { rights })).token;

  it('opens what its level and its notebooks name, and refuses the rest with a reason', async () => {
    await save('mine.ipynb', 'c');
    await save('yours.ipynb', 'd');
    const mine = await sessionOf('mine.ipynb');
    const yours = await sessionOf('yours.ipynb');
    const notebooks = ['mine.*'];
    const levels = {
      read: await made('reads', { level: 'read', notebooks }),
      run: await made('runs', { level: 'run', notebooks }),
      steer: await made('steers', { level: 'steer', notebooks }),
      spend: await made('spends', { level: 'spend', notebooks })
    };
    const allowed = async (method: string, target: string, body?: object): Promise<string[]> => {
      const found: string[] = [];
      for (const [level, token] of Object.entries(levels)) {
        const answer = await bridge.rest(method, target, { token, ...(body ? { body } : {}) });
        if (answer.status !== 403) found.push(level);
        else expect(answer.body).toMatchObject({ code: 'not_permitted' });
      }
      return found;
    };
    const all = Object.keys(levels);
    const runs = all.slice(1);
    const steers = all.slice(2);
    expect(await allowed('GET', '/bridge/v1/files/mine.ipynb')).toEqual(all);
    expect(await allowed('GET', `/bridge/v1/kernels/${mine}/outputs`)).toEqual(all);
    expect(await allowed('GET', `/bridge/v1/kernels/${mine}/journal`)).toEqual(runs);
    expect(await allowed('POST', '/api/sessions', { path: 'mine.ipynb', type: 'notebook' })).toEqual(runs);
    expect(await allowed('POST', `/api/kernels/${mine}/interrupt`)).toEqual(steers);
    const foreign = { path: 'mine.ipynb', type: 'notebook', kernel: { id: yours } };
    expect(await allowed('POST', '/api/sessions', foreign)).toEqual([]);
    for (const [method, target] of [
      ['GET', '/bridge/v1/files/yours.ipynb'],
      ['GET', '/bridge/v1/files/x/../yours.ipynb'],
      ['DELETE', '/bridge/v1/files/mine.ipynb'],
      ['GET', `/api/kernels/${yours}`],
      ['GET', `/bridge/v1/kernels/${yours}/outputs`],
      ['POST', `/api/kernels/${yours}/interrupt`],
      ['POST', '/api/kernels'],
      ['GET', '/bridge/v1/links'],
      ['GET', '/machines/x/api/kernels']
    ] as const)
      expect(await allowed(method, target), `${method} ${target}`).toEqual([]);
    for (const token of Object.values(levels)) {
      expect((await bridge.rest('GET', '/api/kernels', { token })).body).toMatchObject([{ id: mine }]);
      expect((await bridge.rest('GET', '/api/sessions', { token })).body).toMatchObject([
        { path: 'mine.ipynb' }
      ]);
      await expect(bridge.connect(yours, { token })).rejects.toThrow();
    }
    using running = await bridge.connect(mine, { token: levels.run });
    const id = running.execute("print('ran')");
    await running.done(id);
    expect(running.printed(id)).toBe('ran\n');
    const refused = await running.request('control', 'shutdown_request', { restart: false });
    expect(refused.content).toMatchObject({ ename: 'not_permitted' });
    // Only a token for all notebooks may use remotes; no remote with this name exists.
    const spends = await made('spends-anywhere', { level: 'spend' });
    const remote = await bridge.rest('GET', '/machines/x/api/kernels', { token: spends });
    expect(remote.body).toMatchObject({ code: 'remote_not_found' });
    // Another person's notebook joins the kernel: code that runs there would reach that person's data.
    await sessionOf('yours-too.ipynb', mine);
    expect(await allowed('POST', `/api/kernels/${mine}/interrupt`)).toEqual([]);
  });
});
