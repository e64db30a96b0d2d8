import { ServerConnection } from '@jupyterlab/services';
import { type CellExecution, MAX_REQUESTED, type RequestedQuestion } from '@tpulab/protocol';
import { describe, expect, it } from 'vitest';
import { hasScriptable, RequestedHere } from './trust.js';

const { signal } = new AbortController();

function execution(msgId: string, data: Record<string, unknown> | null = null): CellExecution {
  const output = data && { output_type: 'display_data' as const, data, metadata: {} };
  const entry = { firstSeq: 1, lastSeq: 1, displayId: null, cursor: null, cutBytes: 0, buffers: 0 };
  return {
    ...{ msgId, cellId: `cell of ${msgId}`, codeHash: null, state: 'ok', executionCount: 1 },
    ...{ requestedAt: '', startedAt: null, finishedAt: null, requestSeq: 1, changedSeq: 1 },
    ...{ outputs: output ? [{ ...entry, output }] : [], clearPending: false, cutBytes: 0, gaps: [] }
  };
}

/** The bridge on this machine, which has passed on these messages. */
function bridge(passed: readonly string[], status = 200) {
  const questions: RequestedQuestion[] = [];
  const urls: string[] = [];
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://127.0.0.1:1/',
    fetch: async (input: RequestInfo | URL, init?: RequestInit) => {
      const request = new Request(input, init);
      const question = (await request.json()) as RequestedQuestion;
      urls.push(new URL(request.url).pathname);
      questions.push(question);
      const requested = question.executions.map(({ msgId }) => msgId).filter(id => passed.includes(id));
      return new Response(JSON.stringify({ requested }), { status });
    }
  });
  return { settings, questions, urls };
}

describe('the outputs of a remote', () => {
  it('are trusted where the bridge on this machine has passed the request on, and nowhere else', async () => {
    const { settings, questions, urls } = bridge(['mine']);
    const trust = new RequestedHere(() => settings, 'my-tpu', 'k1');
    const [mine, theirs] = [execution('mine'), execution('theirs')];
    expect(trust.has(mine)).toBe(false);
    await trust.learn([mine, theirs], signal);
    expect([trust.has(mine), trust.has(theirs)]).toEqual([true, false]);
    expect(urls).toEqual(['/bridge/v1/machines/my-tpu/requested']);
    expect(questions[0]).toEqual({
      kernelId: 'k1',
      executions: [
        { msgId: 'mine', cellId: 'cell of mine' },
        { msgId: 'theirs', cellId: 'cell of theirs' }
      ]
    });
  });

  it('are requested once, in batches that the bridge accepts', async () => {
    const { settings, questions } = bridge([]);
    const trust = new RequestedHere(() => settings, 'my-tpu', 'k1');
    const many = Array.from({ length: MAX_REQUESTED + 1 }, (_, index) => execution(`m${index}`));
    await trust.learn([...many, execution('x'.repeat(300)), execution('')], signal);
    await trust.learn(many, signal);
    expect(questions.map(({ executions }) => executions.length)).toEqual([MAX_REQUESTED, 1]);
  });

  it('are not trusted while the bridge cannot answer, and are requested again', async () => {
    const mine = execution('mine');
    let { settings } = bridge(['mine'], 503);
    const trust = new RequestedHere(() => settings, 'my-tpu', 'k1');
    await trust.learn([mine], signal);
    expect(trust.has(mine)).toBe(false);
    ({ settings } = bridge(['mine']));
    await trust.learn([mine], signal);
    expect(trust.has(mine)).toBe(true);
    const unknown = new RequestedHere(() => null, 'my-tpu', 'k1');
    await unknown.learn([mine], signal);
    expect(unknown.has(mine)).toBe(false);
  });
});

it.each([
  [{ 'text/html': '<p>' }, true],
  [{ 'image/svg+xml': '<svg/>' }, true],
  [{ 'application/vnd.jupyter.widget-view+json': {} }, true],
  [{ 'text/plain': 'x', 'image/png': '' }, false],
  [null, false]
])('it matters whether %j is trusted: %s', (data, matters) => {
  expect(hasScriptable(execution('m', data))).toBe(matters);
});
