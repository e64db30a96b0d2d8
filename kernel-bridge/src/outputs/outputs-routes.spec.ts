import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { FormatRegistry } from '@sinclair/typebox';
import { type CellExecution, JournalPage, OutputsPage } from '@tpulab/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { codeHash } from './index.js';
import { KernelStory } from './testing/kernel-story.js';
import { isStatus } from '../testing/channels-client.js';
import { type Answer, TemporaryGateway, TOKEN } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const ENDED = '00000000-0000-4000-8000-000000000001';

let bridge: TemporaryGateway;
let kernelId: string;

beforeAll(async () => {
  FormatRegistry.Set('date-time', text => !Number.isNaN(Date.parse(text)));
  bridge = await TemporaryGateway.start();
  await bridge.gateway.ready;
  kernelId = await bridge.startKernel();
});

afterAll(async () => bridge[Symbol.asyncDispose]());

function getOutputs(query = '', id = kernelId, headers: Record<string, string> = {}): Promise<Answer> {
  return bridge.rest('GET', `/bridge/v1/kernels/${id}/outputs${query}`, { headers });
}

async function outputs(query = '', id = kernelId): Promise<OutputsPage> {
  const { status, body } = await getOutputs(query, id);
  expect([status, [...Value.Errors(OutputsPage, body)]]).toEqual([200, []]);
  return body as OutputsPage;
}

function texts({ outputs: entries }: CellExecution): string {
  return entries.map(({ output }) => (output.output_type === 'stream' ? output.text : '')).join('');
}

/** Sends the messages of a cell as our page does, and waits for its end. */
async function runCell(cellId: string, code: string): Promise<void> {
  using client = await bridge.connect(kernelId);
  await client.done(client.execute(code, {}, { cellId }));
}

async function writeEnded(story: KernelStory, id = ENDED): Promise<void> {
  const directory = path.join(bridge.folder, 'kernels', id);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  await story.writeTo(path.join(directory, 'journal'));
}

describe('outputs of a running kernel', () => {
  it('come by cell, with state, count and the hash of the code', async () => {
    const code = "print('one')\n2";
    await runCell('cell-a', code);
    const { executions, alive, until } = await outputs('?cell=cell-a');
    expect(alive).toBe(true);
    expect(executions).toHaveLength(1);
    const [execution] = executions;
    expect(execution).toMatchObject({ cellId: 'cell-a', codeHash: codeHash(code), state: 'ok', gaps: [] });
    expect(execution!.executionCount).toBeGreaterThan(0);
    expect(execution!.outputs.map(({ output }) => output)).toEqual([
      { output_type: 'stream', name: 'stdout', text: 'one\n' },
      {
        output_type: 'execute_result',
        data: { 'text/plain': '2' },
        metadata: {},
        execution_count: execution!.executionCount
      }
    ]);
    expect(until).toBeGreaterThanOrEqual(execution!.changedSeq);
  });

  it('belong to the newest execution of a cell, and on request to older ones too', async () => {
    await runCell('cell-b', "print('first')");
    await runCell('cell-b', "print('second')");
    expect((await outputs('?cell=cell-b')).executions.map(texts)).toEqual(['second\n']);
    const all = await outputs('?cell=cell-b&history=true');
    expect(all.executions.map(texts)).toEqual(['first\n', 'second\n']);
  });

  it('of several cells are returned when the cells are named, and no others', async () => {
    await runCell('cell-c', "print('c')");
    await runCell('cell-d', "print('d')");
    const { executions } = await outputs('?cell=cell-c&cell=cell-d');
    expect(executions.map(({ cellId }) => cellId)).toEqual(['cell-c', 'cell-d']);
    expect((await outputs('?cell=nobody')).executions).toEqual([]);
  });

  it('with since contain the executions that have changed, a display updated from elsewhere among them', async () => {
    await runCell('shows', "handle = display('before', display_id=True)");
    const { until } = await outputs();
    expect((await outputs(`?since=${until}`)).executions).toEqual([]);
    await runCell('updates', "handle.update('after')");
    const { executions } = await outputs(`?since=${until}`);
    expect(executions.map(({ cellId }) => cellId)).toEqual(['shows', 'updates']);
    expect(executions[0]!.outputs[0]!.output).toMatchObject({ data: { 'text/plain': "'after'" } });
  });

  it('come in pages that together contain all outputs', async () => {
    const all = (await outputs('?history=true')).executions.map(({ msgId }) => msgId);
    const paged: string[] = [];
    let after: number | null = 0;
    while (after !== null) {
      const page: OutputsPage = await outputs(`?history=true&limit=2&after=${after}`);
      paged.push(...page.executions.map(({ msgId }) => msgId));
      after = page.nextAfter;
    }
    expect(paged).toEqual(all);
    expect(all.length).toBeGreaterThan(4);
  });

  it('that have not changed are not sent again', async () => {
    const first = await getOutputs('?cell=cell-a');
    const etag = first.headers.get('etag')!;
    const second = await getOutputs('?cell=cell-a', kernelId, { 'if-none-match': etag });
    expect([second.status, second.body]).toEqual([304, '']);
    expect((await getOutputs('?cell=cell-b', kernelId, { 'if-none-match': etag })).status).toBe(200);
    await runCell('cell-e', 'pass');
    expect((await getOutputs('?cell=cell-a', kernelId, { 'if-none-match': etag })).status).toBe(200);
  });

  it('can be continued live while the cell prints, with nothing missing and nothing twice', async () => {
    const lossless = await bridge.startKernel({ name: 'lossless' });
    using running = await bridge.connect(lossless);
    const lines = 2000;
    const gate = path.join(bridge.folder, 'gate');
    // Half of the output waits for the page: otherwise the cell could have ended before the page connected.
    const code = `
import os, time
for n in range(${lines}):
    print(n, flush=True)
    while n == ${lines / 2} and not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)
`;
    const id = running.execute(code, {}, { cellId: 'floods' });
    await running.until(() => running.printed(id).includes('\n50\n'));
    const { executions, until } = await outputs('?cell=floods', lossless);
    using page = await bridge.connect(lossless, { resume: until });
    writeFileSync(gate, '');
    await page.until(() => page.answers(id).some(message => isStatus(message, 'idle')));
    const wanted = Array.from({ length: lines }, (_, n) => `${n}\n`).join('');
    expect(texts(executions[0]!) + page.printed(id)).toBe(wanted);
    await running.done(id);
    expect((await outputs('?cell=floods', lossless)).executions.map(texts)).toEqual([wanted]);
  });

  it('report a cell that waits, runs and is lost when the kernel is restarted', async () => {
    const own = await bridge.startKernel();
    using client = await bridge.connect(own);
    await client.run('pass');
    const id = client.execute('print("begun", flush=True)\nwhile True: pass', {}, { cellId: 'runs' });
    client.execute('pass', {}, { cellId: 'waits' });
    await client.until(() => client.printed(id) === 'begun\n');
    const states = async (): Promise<unknown> =>
      (await outputs('?cell=runs&cell=waits', own)).executions.map(({ state }) => state);
    await expect.poll(states, { timeout: 60_000 }).toEqual(['running', 'queued']);
    await bridge.rest('POST', `/api/kernels/${own}/restart`);
    using after = await bridge.connect(own);
    await after.run('pass');
    expect(await states()).toEqual(['lost', 'lost']);
    await bridge.rest('DELETE', `/api/kernels/${own}`);
    // The kernel's journal is kept, and so are the outputs.
    expect(await states()).toEqual(['lost', 'lost']);
    expect((await outputs('', own)).alive).toBe(false);
  });
});

describe('outputs of a kernel that has ended', () => {
  it('are read from the stored journal; cells that were running are lost', async () => {
    const story = new KernelStory();
    story.cell('done', 'print(1)', 1, id => story.stream(id, '1\n'));
    const open = story.request('print(2)', { cellId: 'open' });
    story.begin(open, 'print(2)', 2);
    story.stream(open, '2\n');
    story.gap(3, 'The disk was full.');
    await writeEnded(story);
    const { alive, executions, until } = await outputs('', ENDED);
    expect([alive, until]).toEqual([false, story.messages.length]);
    expect(executions.map(({ cellId, state }) => [cellId, state])).toEqual([
      ['done', 'ok'],
      ['open', 'lost']
    ]);
    expect(executions.map(texts)).toEqual([
      '1\n',
      '2\n[tpulab] 3 messages are missing here. The disk was full.\n'
    ]);
    expect(executions[1]!.gaps).toMatchObject([{ count: 3, code: 'journal_disk_full' }]);
  });

  it('have their journal page too', async () => {
    const { status, body } = await bridge.rest('GET', `/bridge/v1/kernels/${ENDED}/journal?from=2&limit=2`);
    expect([status, [...Value.Errors(JournalPage, body)]]).toEqual([200, []]);
    expect((body as JournalPage).entries.map(({ seq }) => seq)).toEqual([2, 3]);
    expect(body).toMatchObject({ next: 4, firstSeq: 1 });
  });
});

describe('a request whose client no longer waits', () => {
  it('is aborted, and the next one is answered', async () => {
    const id = '00000000-0000-4000-8000-000000000002';
    const story = new KernelStory();
    story.cell('large', 'x', 1, each => {
      for (let n = 0; n < 20_000; n++) story.stream(each, `${n}\n`);
    });
    await writeEnded(story, id);
    const ended = new AbortController();
    const headers = { authorization: `token ${TOKEN}` };
    const requested = fetch(`${bridge.url}bridge/v1/kernels/${id}/outputs`, {
      headers,
      signal: ended.signal
    });
    ended.abort();
    await expect(requested).rejects.toThrow();
    expect((await outputs('', id)).executions.map(texts)).toEqual([
      Array.from({ length: 20_000 }, (_, n) => `${n}\n`).join('')
    ]);
  });
});

describe('a request that cannot be answered', () => {
  it.each([
    ['?limit=0'],
    ['?limit=1001'],
    ['?since=-1'],
    ['?since=1e400'],
    ['?after=1.5'],
    ['?limit=0x10'],
    ['?since=x'],
    ['?maxBytes=10'],
    ['?maxBytes=99999999999'],
    ['?history=perhaps']
  ])('%s is refused', async query => {
    expect(await getOutputs(query)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  // Otherwise only its first digit would be read.
  it.each(['journal', 'journal/stream'])('%s?from=1e400 is refused', async route => {
    const requested = await bridge.rest('GET', `/bridge/v1/kernels/${ENDED}/${route}?from=1e400`);
    expect(requested).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  it.each([['../../etc'], ['%2e%2e'], ['00000000-0000-4000-8000-0000000000ff'], ['no-id']])(
    'of kernel %s is refused',
    async id => {
      expect(await getOutputs('', id)).toMatchObject({ status: 404 });
    }
  );
});
