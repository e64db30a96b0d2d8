import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GatewayView, KeeperFixture } from './testing/keeper-fixture.js';

describe('a keeper with a small kernel', { timeout: 120_000 }, () => {
  let view: GatewayView;
  let keeper: KeeperFixture;

  beforeEach(() => {
    view = new GatewayView();
  });

  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') {
      process.stderr.write(await keeper.logs());
    }
    await keeper[Symbol.asyncDispose]();
  });

  it('runs a request, and hands out everything about it in order', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    const msgId = keeper.execute(client, 'print 3');
    await view.untilDone(msgId);
    expect(view.text).toBe('line 0\nline 1\nline 2\n');
    const ours = view.messages.filter(({ parentId }) => parentId === msgId);
    expect(ours.filter(({ channel }) => channel === 'iopub').map(({ type }) => type)).toEqual([
      'status',
      'execute_input',
      'stream',
      'stream',
      'stream',
      'status'
    ]);
    const seqs = view.records.map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, index) => seqs[0]! + index));
  });
});
