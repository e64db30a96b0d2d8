import { existsSync } from 'node:fs';
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { gapOf, type JournalRecord } from '../journal/record.js';
import { processStart } from '@tpulab/platform/process-identity.js';
import type { KeeperClient } from '../keeper-client/client.js';
import { readCheckpoint } from './checkpoint.js';
import { GatewayView, KeeperFixture, type Seen } from './testing/keeper-fixture.js';

const PYTHON = fileURLToPath(new URL('../../../.tpulab/envs/jax/bin/python', import.meta.url));
const isInstalled = existsSync(PYTHON);
if (!isInstalled) {
  process.stderr.write(`Specs with ipykernel are skipped: ${PYTHON} does not exist; "npm start" makes it.\n`);
}

const launcher = {
  specName: 'tpulab-jax',
  displayName: 'JAX',
  argv: [PYTHON, '-m', 'tpulab.launcher', '-f', '{connection_file}'],
  env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/' },
  bestEffort: false,
  shutdownWaitMs: 10_000
};

const lines = (count: number): string => Array.from({ length: count }, (_, n) => `line ${n}\n`).join('');

/** Prints numbered lines one by one, the last quarter only after the file `go` exists. */
const flood = (count: number, go: string): string =>
  `import os, sys, time\nfor i in range(${count}):\n    sys.stdout.write(f"line {i}\\n")\n    sys.stdout.flush()\n` +
  `    while i == ${count * 0.75} and not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)`;

describe.skipIf(!isInstalled)('a kernel of our launcher whose keeper is killed', () => {
  let view: GatewayView;
  let keeper: KeeperFixture;

  beforeEach(async () => {
    view = new GatewayView();
    keeper = await KeeperFixture.create(launcher);
  });

  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') {
      process.stderr.write(await keeper.logs());
    }
    await keeper[Symbol.asyncDispose]();
  });

  async function kill(client: KeeperClient): Promise<void> {
    const { keeperPid } = client.snapshot;
    const start = await processStart(keeperPid);
    process.kill(keeperPid, 'SIGKILL');
    await expect.poll(() => processStart(keeperPid), { timeout: 30_000 }).not.toBe(start);
  }

  /** A new keeper, and a view of all messages from then on. */
  async function takenOver(): Promise<{ client: KeeperClient; seen: GatewayView }> {
    const seen = new GatewayView();
    const client = await keeper.attachOrAdopt(seen);
    await client.subscribe();
    return { client, seen };
  }

  /** Cuts the journal in the middle of this record, as a disk that loses its last writes does. */
  async function cutAt({ payload }: JournalRecord): Promise<void> {
    const [name] = (await readdir(`${keeper.kernelDir}/journal`)).filter(file => file.endsWith('.seg'));
    const segment = `${keeper.kernelDir}/journal/${name}`;
    const at = (await readFile(segment)).indexOf(payload);
    expect(at).toBeGreaterThan(0);
    await truncate(segment, at + 1);
  }

  async function journalOf(msgId: string): Promise<{ text: string; gaps: unknown[]; types: string[] }> {
    const all = await keeper.journaled();
    return {
      text: all.textOf(msgId),
      gaps: all.records.map(gapOf).filter(gap => gap !== null),
      types: all.messages.filter(({ parentId }) => parentId === msgId).map(({ type }) => type)
    };
  }

  /**
   * Waits until the end of the execution is in the journal: the reply, and the idle status, which follows all output. The
   * kernel's state is reported earlier than that.
   */
  async function journaled(msgId: string): Promise<void> {
    const ends = async (): Promise<boolean[]> => {
      const own = (await keeper.journaled()).messages.filter(({ parentId }) => parentId === msgId);
      const isIdle = ({ content }: Seen): boolean => content['execution_state'] === 'idle';
      return [own.some(({ type }) => type === 'execute_reply'), own.some(isIdle)];
    };
    await expect.poll(ends, { timeout: 300_000, interval: 500 }).toEqual([true, true]);
  }

  it(
    'loses, duplicates and reorders nothing in the middle of a flood, twice in a row',
    { timeout: 480_000 },
    async () => {
      const count = 20_000;
      const client = await keeper.ready(view);
      const { kernelPid } = client.snapshot;
      const go = `${keeper.launch.cwd}/go`;
      const msgId = keeper.execute(client, flood(count, go));
      await view.until('it prints', () => view.messages.length > 500);
      await kill(client);
      const second = await takenOver();
      // However long the takeover has taken, some output remains for this keeper.
      await writeFile(go, '');
      await second.seen.until('it prints on', () => second.seen.records.length > 500);
      await kill(second.client);
      const { client: third, seen } = await takenOver();
      expect(third.snapshot).toMatchObject({ kernelPid });
      await journaled(msgId);
      await seen.untilState('idle');
      const { text, gaps, types } = await journalOf(msgId);
      expect(gaps).toEqual([]);
      expect(text).toBe(lines(count));
      expect(types.filter(type => type === 'execute_reply')).toHaveLength(1);
      expect(types.filter(type => type === 'status')).toHaveLength(2);
    }
  );

  it('keeps the output and the end of a cell while there is no keeper at all', async () => {
    const client = await keeper.ready(view);
    const go = `${keeper.launch.cwd}/go`;
    const done = `${keeper.launch.cwd}/done`;
    const msgId = keeper.execute(
      client,
      `import os, time\nprint("begun", flush=True)\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)\n` +
        `for i in range(1000): print("line", i, flush=True)\nopen(${JSON.stringify(done)}, "w").close()\n6 * 7`
    );
    await view.until('it has begun', () => view.text.includes('begun'));
    await kill(client);
    await writeFile(go, '');
    await expect.poll(() => existsSync(done), { timeout: 60_000 }).toBe(true);
    const { client: second, seen } = await takenOver();
    await seen.untilState('idle');
    expect(second.snapshot.busyParent).toBeNull();
    await journaled(msgId);
    const { text, gaps, types } = await journalOf(msgId);
    expect(gaps).toEqual([]);
    expect(text).toBe(`begun\n${lines(1000)}`);
    expect(types.filter(type => type === 'execute_result')).toHaveLength(1);
    const request = keeper.execute(second, 'print("still here")');
    await seen.untilDone(request);
    expect(seen.textOf(request)).toBe('still here\n');
  });

  it('accepts the answer to an earlier stdin question, and to one that no client received', async () => {
    const client = await keeper.ready(view);
    const go = `${keeper.launch.cwd}/go`;
    const answered = `${keeper.launch.cwd}/answered`;
    const msgId = keeper.execute(
      client,
      `import os, time\nfirst = input("first? ")\nopen(${JSON.stringify(answered)}, "w").close()\n` +
        `while not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)\nprint(first, input("second? "))`
    );
    await view.until('it asks', () => view.messages.some(({ type }) => type === 'input_request'));
    // The status uses another socket than the stdin question.
    await view.untilState('busy');
    await kill(client);
    const { client: second, seen } = await takenOver();
    expect(second.snapshot.executionState).toBe('busy');
    expect(JSON.parse(second.snapshot.busyParent!)).toMatchObject({ msg_id: msgId });
    second.send(keeper.request('input_reply', { value: 'Ada' }, 'stdin').frame);
    await seen.until('the answer is kept', () => seen.messages.some(({ type }) => type === 'input_reply'));
    // A journaled answer may not be sent yet: a keeper that is still taking over queues it.
    await expect.poll(() => existsSync(answered), { timeout: 60_000 }).toBe(true);
    await kill(second);
    await writeFile(go, '');
    const { client: third, seen: last } = await takenOver();
    await expect
      .poll(async () => (await journalOf(msgId)).types.filter(type => type === 'input_request'), {
        timeout: 60_000
      })
      .toHaveLength(2);
    third.send(keeper.request('input_reply', { value: 'Lovelace' }, 'stdin').frame);
    await last.untilDone(msgId, (await keeper.journaled()).records);
    expect((await journalOf(msgId)).text).toBe('Ada Lovelace\n');
  });

  it('gets requests that the keeper had stored and not yet sent', async () => {
    const client = await keeper.ready(view);
    const busy = keeper.execute(client, 'import time\nprint("on", flush=True)\ntime.sleep(2)');
    await view.until('it is busy', () => view.text.includes('on'));
    const queued = Array.from({ length: 20 }, (_, n) => keeper.execute(client, `print("queued", ${n})`));
    await view.until('they are written', () =>
      view.messages.some(({ message }) => String(message.parts[0]).includes(queued.at(-1)!))
    );
    await kill(client);
    const { seen } = await takenOver();
    const before = (await keeper.journaled()).records;
    await seen.untilDone(queued.at(-1)!, before);
    const all = await keeper.journaled();
    for (const [n, msgId] of queued.entries()) {
      expect(all.textOf(msgId)).toBe(`queued ${n}\n`);
    }
    expect(all.textOf(busy)).toBe('on\n');
  });

  it('gets a substitute reply when the journal has lost one that the kernel has dropped', async () => {
    const client = await keeper.ready(view);
    const go = `${keeper.launch.cwd}/go`;
    const msgId = keeper.execute(
      client,
      `import os, time\nprint("done", flush=True)\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)`
    );
    // The output uses another socket than the reply, which must come after it.
    await view.until('it prints', () => view.textOf(msgId) === 'done\n');
    await writeFile(go, '');
    const reply = await view.untilDone(msgId);
    const forgotten = view.records.at(-1)!.seq;
    await expect
      .poll(async () => (await readCheckpoint(keeper.kernelDir))?.seq ?? 0, { timeout: 60_000 })
      .toBeGreaterThanOrEqual(forgotten);
    await kill(client);
    await cutAt(reply.record);
    const { client: second, seen } = await takenOver();
    const all = (await keeper.journaled()).records;
    expect((await seen.untilDone(msgId, all)).content).toMatchObject({ status: 'error', ename: 'ReplyLost' });
    const { types, text } = await journalOf(msgId);
    expect(types.filter(type => type === 'execute_reply')).toHaveLength(1);
    expect(text).toBe('done\n');
    expect((await seen.untilDone(keeper.execute(second, '1'))).content).toMatchObject({ status: 'ok' });
    expect(second.snapshot.busyParent).toBeNull();
    // Clients that were disconnected throughout are still notified, by the next keeper.
    const { renumberedFrom } = second.snapshot;
    expect(renumberedFrom).toBeGreaterThan(0);
    await expect
      .poll(async () => (await readCheckpoint(keeper.kernelDir))?.renumberedFrom, { timeout: 60_000 })
      .toBe(renumberedFrom);
    await kill(second);
    expect((await takenOver()).client.snapshot).toMatchObject({ renumberedFrom });
  });

  it('counts the messages that the ring could not hold', async () => {
    await keeper[Symbol.asyncDispose]();
    keeper = await KeeperFixture.create({
      ...launcher,
      argv: [...launcher.argv, '--RecordedKernelApp.resend_bytes=200000']
    });
    const client = await keeper.ready(view);
    const go = `${keeper.launch.cwd}/go`;
    const done = `${keeper.launch.cwd}/done`;
    const msgId = keeper.execute(
      client,
      `import os, sys, time\nwhile not os.path.exists(${JSON.stringify(go)}): time.sleep(0.01)\n` +
        // One write for each line: the kernel's timed flush cannot split it into two messages.
        `for i in range(2000):\n    sys.stdout.write(f"line {i}\\n")\n    sys.stdout.flush()\n` +
        `open(${JSON.stringify(done)}, "w").close()`
    );
    await view.untilState('busy');
    await kill(client);
    await writeFile(go, '');
    await expect.poll(() => existsSync(done), { timeout: 60_000 }).toBe(true);
    const { seen } = await takenOver();
    await seen.untilState('idle');
    await journaled(msgId);
    const { text, gaps } = await journalOf(msgId);
    const retained = text.split('\n').length - 1;
    expect(text).toBe(
      lines(2000)
        .split('\n')
        .slice(-retained - 1)
        .join('\n')
    );
    expect(gaps).toHaveLength(1);
    expect(gaps[0]).toMatchObject({ code: 'keeper_lost' });
    const { count } = gaps[0] as { count: number };
    expect(count).toBeGreaterThanOrEqual(2000 - retained);
    expect(count).toBeLessThan(2000 - retained + 20);
  });
});

describe('a kernel of another launcher whose keeper is killed', () => {
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

  it('continues under another keeper, with a gap that reports an unknown loss', async () => {
    const client = await keeper.ready(view);
    await view.untilDone(keeper.execute(client, 'print 1'));
    const { kernelPid, keeperPid } = client.snapshot;
    process.kill(keeperPid, 'SIGKILL');
    const seen = new GatewayView();
    const second = await keeper.attachOrAdopt(seen);
    await second.subscribe();
    expect(second.snapshot).toMatchObject({ kernelPid, executionState: 'idle' });
    await seen.untilDone(keeper.execute(second, 'print 2'));
    expect(seen.text).toBe('line 0\nline 1\n');
    const all = await keeper.journaled();
    const gaps = all.records.map(gapOf).filter(gap => gap !== null);
    expect(gaps).toMatchObject([{ count: null, code: 'keeper_lost' }]);
    // Later requests work as they do under the keeper that started the kernel.
    const restarted = await second.restart();
    expect(restarted.kernelPid).not.toBe(kernelPid);
    expect(await processStart(kernelPid!)).toBeNull();
  });

  it('gets a substitute reply for a cell that ended while there was no keeper, not for one that is still running', async () => {
    const client = await keeper.ready(view);
    const { kernelPid, keeperPid } = client.snapshot;
    const ended = keeper.execute(client, 'wait');
    await view.untilState('busy');
    process.kill(keeperPid, 'SIGKILL');
    await expect.poll(() => processStart(keeperPid), { timeout: 30_000 }).toBeNull();
    process.kill(kernelPid!, 'SIGINT');
    await expect.poll(() => keeper.logs(), { timeout: 30_000 }).toContain('the wait was interrupted');
    const seen = new GatewayView();
    const second = await keeper.attachOrAdopt(seen);
    await second.subscribe();
    const { records } = await keeper.journaled();
    const reply = await seen.untilDone(ended, records);
    expect(reply.content).toMatchObject({ status: 'error', ename: 'ReplyLost' });

    const running = keeper.execute(second, 'wait\nprint 1');
    await seen.until('it runs', () => second.snapshot.executionState === 'busy');
    process.kill(second.snapshot.keeperPid, 'SIGKILL');
    const last = new GatewayView();
    const third = await keeper.attachOrAdopt(last);
    await third.subscribe();
    await third.interrupt();
    expect((await last.untilDone(running)).content).toMatchObject({ ename: 'KeyboardInterrupt' });
    const replies = (await keeper.journaled()).messages.filter(({ type }) => type === 'execute_reply');
    expect(replies.map(({ parentId }) => parentId)).toEqual([ended, running]);
  });

  it('accepts an answer to an open stdin question, can be interrupted, and its end is noticed', async () => {
    const client = await keeper.ready(view);
    const asking = keeper.execute(client, 'input');
    await view.until('the kernel asks', () => view.messages.some(({ type }) => type === 'input_request'));
    await view.untilState('busy');
    // Until the checkpoint with the busy state is written.
    await expect
      .poll(() => existsSync(`${keeper.kernelDir}/checkpoint.json`), { timeout: 60_000 })
      .toBe(true);
    process.kill(client.snapshot.keeperPid, 'SIGKILL');
    const seen = new GatewayView();
    const second = await keeper.attachOrAdopt(seen);
    await second.subscribe();
    expect(JSON.parse(second.snapshot.busyParent!)).toMatchObject({ msg_id: asking });
    second.send(keeper.request('input_reply', { value: 'Ada', status: 'ok' }, 'stdin').frame);
    await seen.untilDone(asking);
    expect(seen.text).toBe('hello Ada\n');

    const waiting = keeper.execute(second, 'wait');
    await seen.untilState('busy');
    await second.interrupt();
    expect((await seen.untilDone(waiting)).content).toMatchObject({ ename: 'KeyboardInterrupt' });

    const { kernelPid } = second.snapshot;
    keeper.execute(second, 'die');
    await seen.untilState('restarting');
    await seen.untilState('idle');
    expect(second.snapshot.kernelPid).not.toBe(kernelPid);
  });

  it('gets one keeper when several gateways find it together', async () => {
    const client = await keeper.ready(view);
    process.kill(client.snapshot.keeperPid, 'SIGKILL');
    const views = [new GatewayView(), new GatewayView(), new GatewayView()];
    const clients = await Promise.all(views.map(each => keeper.attachOrAdopt(each)));
    expect(new Set(clients.map(({ snapshot }) => snapshot.keeperPid)).size).toBe(1);
    await Promise.all(clients.map(each => each.subscribe()));
    const request = keeper.execute(clients[0]!, 'print 3');
    await Promise.all(views.map(each => each.untilDone(request)));
    expect(new Set(views.map(each => each.textOf(request)))).toEqual(new Set([lines(3)]));
  });

  it('is reported as ended when it ended before any gateway attached', async () => {
    const client = await keeper.ready(view);
    const { keeperPid, kernelPid } = client.snapshot;
    process.kill(keeperPid, 'SIGKILL');
    process.kill(-kernelPid!, 'SIGKILL');
    for (const pid of [keeperPid, kernelPid!])
      await expect.poll(() => processStart(pid), { timeout: 30_000 }).toBeNull();
    await expect(keeper.attachOrAdopt(new GatewayView())).rejects.toMatchObject({
      code: 'keeper_gone',
      keeper: { orphanPid: null }
    });
  });
});
