import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { JournalReader } from '../journal/journal-reader.js';
import type { JournalRecord } from '../journal/record.js';
import { readKeeperRecord, kernelPaths } from '../keeper-protocol/keeper-file.js';
import { GatewayView, KeeperFixture } from './testing/keeper-fixture.js';

const FLOOD = 20_000;

function expectLines(view: GatewayView, count: number): void {
  expect(view.text).toBe(Array.from({ length: count }, (_, index) => `line ${index}\n`).join(''));
}

function expectNoHole(records: readonly JournalRecord[]): void {
  const first = records[0]!.seq;
  expect(records.findIndex(({ seq }, index) => seq !== first + index)).toBe(-1);
}

describe('gateways that come and go', () => {
  let view: GatewayView;
  let keeper: KeeperFixture;

  beforeEach(async () => {
    view = new GatewayView();
    keeper = await KeeperFixture.create();
  });

  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') {
      process.stderr.write(await keeper.logs());
    }
    await keeper[Symbol.asyncDispose]();
  });

  it('get a flood of 20,000 messages in order and without loss', async () => {
    const client = await keeper.ready(view);
    await view.untilDone(keeper.execute(client, `print ${FLOOD}`));
    expectLines(view, FLOOD);
    expectNoHole(view.records);
  });

  it('lose nothing when one is killed in the middle of a flood and another replaces it', async () => {
    const client = await keeper.start(view);
    await client.subscribe();
    const msgId = keeper.execute(client, `print ${FLOOD}`);
    await view.until('the flood has begun', () => view.records.length > 500);
    // To the keeper, the end of a process looks like this: the socket is closed, and its contents are lost.
    await client[Symbol.asyncDispose]();
    const had = view.records.at(-1)!.seq;

    const after = new GatewayView();
    const second = await keeper.attach(after);
    const { liveFrom } = await second.subscribe();
    const missed: JournalRecord[] = [];
    for await (const record of new JournalReader(kernelPaths(keeper.kernelDir).journal).read(had + 1, {
      to: liveFrom - 1
    })) {
      missed.push(record);
    }
    const earlier = [...view.records, ...missed];
    await after.untilDone(msgId, earlier);
    after.records.unshift(...earlier);
    expectNoHole(after.records);
    expectLines(after, FLOOD);
  });

  it('survive each other: a keeper continues when the process of a gateway is killed', async () => {
    const client = await keeper.ready(view);
    const { socketPath } = (await readKeeperRecord(keeper.kernelDir))!;
    const script = `require('node:net').connect(${JSON.stringify(socketPath)}).once('data', () => console.log('connected'))`;
    const other = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(other.stdout, 'data');
    other.kill('SIGKILL');
    await once(other, 'exit');
    await view.untilDone(keeper.execute(client, 'print 1'));
    await expect.poll(() => keeper.logs(), { timeout: 30_000 }).toContain('a gateway has disconnected');
    expect(client.snapshot.executionState).not.toBe('dead');
  });

  it('may be two at the same time, and both receive everything', async () => {
    const client = await keeper.ready(view);
    const other = new GatewayView();
    const second = await keeper.attach(other);
    await second.subscribe();
    const ids = [keeper.execute(client, 'print 100'), keeper.execute(second, 'print 100')];
    for (const id of ids) {
      await Promise.all([view.untilDone(id), other.untilDone(id)]);
    }
    const from = other.records[0]!.seq;
    expect(view.records.filter(({ seq }) => seq >= from)).toEqual(other.records);
  });

  it('that read too slowly do not fill the keeper’s memory, and miss nothing once they read on', async () => {
    const client = await keeper.ready(view);
    const slow = new GatewayView();
    const second = await keeper.attach(slow);
    await second.subscribe();
    const socket = (second as unknown as { socket: { pause(): void; resume(): void } }).socket;
    socket.pause();
    // 40 MB for a gateway that reads none of it: five times its buffer.
    const code = Array.from({ length: 400 }, () => 'large 100000').join('\n');
    const msgId = keeper.execute(client, code);
    await view.untilDone(msgId);
    socket.resume();
    await slow.untilDone(msgId);
    expectNoHole(slow.records);
    expect(slow.text.length).toBe(40_000_000);
    expect(await keeper.logs()).not.toContain('failed');
    // Live again: new messages are pushed.
    const next = keeper.execute(client, 'print 3');
    await Promise.all([slow.untilDone(next), view.untilDone(next)]);
    expectNoHole(slow.records);
    const pushed = new Map(view.records.map(({ seq, payload }) => [seq, payload]));
    const different = slow.records.filter(({ seq, payload }) => pushed.get(seq)?.equals(payload) === false);
    expect(different).toEqual([]);
  });

  it('that use another protocol are cut off, and disturb no other', async () => {
    const client = await keeper.ready(view);
    const { socketPath } = (await readKeeperRecord(keeper.kernelDir))!;
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      Buffer.from([3, 0, 0, 0, 1, 0x7b, 0x7d]),
      Buffer.alloc(8, 0xff)
    ]) {
      const stranger = connect(socketPath);
      stranger.resume();
      stranger.on('error', () => undefined);
      stranger.write(bytes);
      await once(stranger, 'close');
    }
    await view.untilDone(keeper.execute(client, 'print 1'));
  });
});
