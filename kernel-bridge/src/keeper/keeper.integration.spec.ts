import { mkdir, mkdtemp, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { JournalReader } from '../journal/journal-reader.js';
import { isRestart } from '../journal/record.js';
import { encodeV1 } from '../jupyter/v1-frame.js';
import { attachKeeper } from '../keeper-client/attach.js';
import { KeeperEndedError } from '../keeper-protocol/keeper-error.js';
import { kernelPaths, readKeeperRecord } from '../keeper-protocol/keeper-file.js';
import { isSameProcess, processStart } from '@tpulab/platform/process-identity.js';
import { GatewayView, KeeperFixture } from './testing/keeper-fixture.js';

/** A file for which a kernel waits before it does anything. */
async function makeGate(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kernel-gate-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, 'gate');
}

describe('a keeper with a small kernel', () => {
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

  it('runs a request, and delivers its messages in order', async () => {
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
    expect(client.snapshot.lastSeq).toBe(seqs.at(-1));
    expect(client.snapshot.kernelSession).toBe(ours[0]!.session);
  });

  it('journals both directions, and sends no client its own requests', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    const msgId = keeper.execute(client, 'buffers');
    await view.untilDone(msgId);
    expect(view.messages.filter(({ type }) => type.startsWith('kernel_info'))).toEqual([]);
    const { kernelInfo } = await client.status();
    expect(JSON.parse(kernelInfo!)).toMatchObject({ implementation: 'tiny' });

    const request = view.messages.find(({ fromClient }) => fromClient)!;
    expect(request).toMatchObject({
      channel: 'shell',
      type: 'execute_request',
      content: { code: 'buffers' }
    });
    const display = view.messages.find(({ type }) => type === 'display_data')!;
    expect(display.message.parts.slice(4)).toEqual([Buffer.from([0, 1, 2, 255]), Buffer.alloc(0)]);

    const onDisk = new JournalReader(kernelPaths(keeper.kernelDir).journal);
    const stored = [];
    for await (const record of onDisk.read(view.records[0]!.seq)) {
      stored.push(record);
    }
    expect(stored).toEqual(view.records);
  });

  it('[14] drops forged messages, and invalid messages of gateways', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    client.send(Buffer.from('garbage'));
    client.send(encodeV1({ channel: 'iopub', parts: Array.from({ length: 4 }, () => Buffer.from('{}')) }));
    client.send(
      encodeV1({ channel: 'shell', parts: Array.from({ length: 4 }, () => Buffer.from('no JSON')) })
    );
    await view.untilDone(keeper.execute(client, 'forge'));
    expect(view.text).toBe('genuine\n');
    const logs = await keeper.logs();
    expect(logs).toContain('signature_invalid');
    expect(logs).toContain('frame_malformed');
    expect(logs).toContain('header_invalid');
    expect(view.messages.filter(({ fromClient }) => fromClient)).toHaveLength(1);
  });

  it('[16] queues requests that come while the kernel is starting, and loses none of their output', async () => {
    keeper = await KeeperFixture.create({}, ['--bind-after', 'go']);
    const client = await keeper.start(view);
    expect(await client.subscribe()).toEqual({ liveFrom: 1 });
    expect(client.snapshot.executionState).toBe('starting');
    const ids = ['print 1', 'print 2', 'print 3'].map(code => keeper.execute(client, code));
    await view.until('the keeper has the requests', () => view.records.length === ids.length);
    await writeFile(join(keeper.launch.cwd, 'go'), '');
    for (const id of ids) {
      await view.untilDone(id);
      const about = view.messages.filter(({ parentId, channel }) => parentId === id && channel === 'iopub');
      expect(about.map(({ type }) => type)).toEqual(
        expect.arrayContaining(['status', 'execute_input', 'stream', 'status'])
      );
    }
    expect(view.records.map(({ seq }) => seq)).toEqual(view.records.map((_, index) => index + 1));
  });

  it('[16] is ready although the kernel answers kernel_info on shell alone', async () => {
    keeper = await KeeperFixture.create({}, ['--no-control-info']);
    await keeper.ready(view);
  });

  it('[18] passes input requests and their answers', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    const msgId = keeper.execute(client, 'input');
    await view.until('the kernel asks', () => view.messages.some(({ type }) => type === 'input_request'));
    client.send(keeper.request('input_reply', { value: 'Ada', status: 'ok' }, 'stdin').frame);
    await view.untilDone(msgId);
    expect(view.text).toBe('hello Ada\n');
  });

  it('gives the kernel its environment and folder, and no variable of its keeper', async () => {
    keeper = await KeeperFixture.create({
      env: { PATH: process.env['PATH']!, GIVEN: 'yes', JPY_PARENT_PID: '1' }
    });
    const client = await keeper.ready(view);
    const names = ['GIVEN', 'JPY_PARENT_PID', 'TPULAB_KERNEL_ID', 'HOME'];
    const code = [...names.map(name => `env ${name}`), 'cwd'].join('\n');
    await view.untilDone(keeper.execute(client, code));
    expect(view.text.split('\n')).toEqual([
      'yes',
      'unset',
      keeper.launch.kernelId,
      'unset',
      keeper.launch.cwd,
      ''
    ]);
  });

  it('is restarted in its folder after that was renamed, and names it when it was deleted', async () => {
    const cwd = await realpath(await mkdtemp(join(tmpdir(), 'kernel-folder-')));
    keeper = await KeeperFixture.create({ cwd });
    const client = await keeper.ready(view);
    const renamed = `${cwd}-renamed`;
    await rename(cwd, renamed);
    await client.restart();
    await view.untilDone(keeper.execute(client, 'cwd'));
    expect(view.text.trimEnd().split('\n').at(-1)).toBe(renamed);
    await rm(renamed, { recursive: true });
    await expect(client.restart()).rejects.toThrow(`The kernel's folder ${cwd} was deleted. Make it again`);
    await mkdir(cwd);
    await client.restart();
    await view.untilDone(keeper.execute(client, 'cwd'));
    expect(view.text.trimEnd().split('\n').at(-1)).toBe(cwd);
    await rm(cwd, { recursive: true });
  });

  it.each(['signal', 'message'] as const)('[17] interrupts a running request by %s', async interruptMode => {
    keeper = await KeeperFixture.create({ interruptMode });
    const client = await keeper.ready(view);
    const msgId = keeper.execute(client, 'print 1\nwait');
    await view.until('it runs', () => view.text === 'line 0\n');
    await view.untilState('busy');
    expect(JSON.parse(client.snapshot.busyParent!)).toMatchObject({ msg_id: msgId });
    await client.interrupt();
    const reply = await view.untilDone(msgId);
    await view.untilState('idle');
    expect(client.snapshot.busyParent).toBeNull();
    expect(reply.content).toMatchObject({ status: 'error', ename: 'KeyboardInterrupt' });
    expect(view.messages.filter(({ type }) => type.startsWith('interrupt'))).toEqual([]);
  });

  it('[17] aborts what waits for a kernel that starts when it is interrupted, and runs what comes after', async () => {
    const gate = await makeGate();
    keeper = await KeeperFixture.create({}, ['--bind-after', gate]);
    const client = await keeper.start(view);
    await client.subscribe();
    const waiting = ['print 1\nwait', 'print 2'].map(code => keeper.execute(client, code));
    await client.interrupt();
    for (const msgId of waiting)
      expect((await view.untilDone(msgId)).content).toMatchObject({ status: 'aborted' });
    await writeFile(gate, '');
    await view.untilDone(keeper.execute(client, 'print 1'));
    expect(view.text).toBe('line 0\n');
  });

  it('[17] restarts in place on request: another process and session, the same journal, and iopub reports it', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    await view.untilDone(keeper.execute(client, 'print 1'));
    const before = client.snapshot;
    keeper.execute(client, 'wait');
    await view.untilState('busy');
    const after = await client.restart();
    expect(after).toMatchObject({
      executionState: 'idle',
      reason: null,
      kernelId: before.kernelId,
      busyParent: null
    });
    expect(after.kernelPid).not.toBe(before.kernelPid);
    expect(after.kernelSession).not.toBe(before.kernelSession);
    expect(view.states.map(({ executionState }) => executionState)).toContain('restarting');
    await view.untilDone(keeper.execute(client, 'print 2'));
    expect(view.text).toBe('line 0\nline 0\nline 1\n');
    // On the wire this is not a crash; the journal records the restart for its readers.
    expect(view.messages.filter(({ content }) => content['execution_state'] === 'restarting')).toEqual([]);
    expect(view.records.filter(isRestart)).toHaveLength(1);
    // The keeper notices the restart without waiting for the command.
    await expect
      .poll(() => readKeeperRecord(keeper.kernelDir), { timeout: 30_000 })
      .toMatchObject({ kernelPid: after.kernelPid });
  });

  it('[17] refuses an interrupt while it restarts, and does not call the kernel dead', async () => {
    keeper = await KeeperFixture.create({ shutdownWaitMs: 2_000 }, ['--ignore-sigterm']);
    const client = await keeper.ready(view);
    keeper.execute(client, 'wait');
    await view.untilState('busy');
    const restarted = client.restart();
    await view.untilState('restarting');
    await expect(client.interrupt()).rejects.toMatchObject({ code: 'kernel_restarting' });
    expect(await restarted).toMatchObject({ executionState: 'idle' });
  });

  it('[17] restarts a crashed kernel until the limit, then reports it dead, with the session of the kernel', async () => {
    keeper = await KeeperFixture.create({ restartLimit: 2 });
    const client = await keeper.ready(view);
    const pids = new Set([client.snapshot.kernelPid]);
    for (const [code, reason] of [
      ['print 50\nexit 3', 'exited with code 3'],
      ['die', 'killed by SIGKILL']
    ] as const) {
      const session = client.snapshot.kernelSession;
      keeper.execute(client, code);
      await view.until(`it restarts: ${reason}`, () =>
        view.states.some(state => state.executionState === 'restarting' && state.reason === reason)
      );
      await view.untilState('idle');
      pids.add(client.snapshot.kernelPid);
      const reported = view.messages
        .filter(({ content }) => content['execution_state'] === 'restarting')
        .at(-1)!;
      expect(reported).toMatchObject({ channel: 'iopub', type: 'status', session, parentId: null });
      expect(client.snapshot.kernelSession).not.toBe(session);
    }
    expect(pids.size).toBe(3);
    // The kernel's last output was not lost.
    expect(view.text).toContain('line 49\n');

    const session = client.snapshot.kernelSession;
    keeper.execute(client, 'exit 0');
    await view.untilState('dead');
    expect(client.snapshot).toMatchObject({
      reason: 'exited with code 0',
      kernelPid: null,
      busyParent: null
    });
    await view.until('clients are told', () =>
      view.messages.some(
        ({ content, session: of }) => content['execution_state'] === 'dead' && of === session
      )
    );
    await expect(client.interrupt()).rejects.toMatchObject({ code: 'kernel_dead' });

    const revived = await client.restart();
    expect(revived.executionState).toBe('idle');
    await view.untilDone(keeper.execute(client, 'print 1'));
  });

  it('is reported dead when the kernel never creates its sockets, and answers open requests', async () => {
    const gate = await makeGate();
    keeper = await KeeperFixture.create({ restartLimit: 1 }, ['--bind-after', gate, '--exit-at-start', '7']);
    const client = await keeper.start(view);
    await client.subscribe();
    const request = keeper.execute(client, 'print 1');
    await view.until('it is asked', () => view.messages.some(({ fromClient }) => fromClient));
    await writeFile(gate, '');
    await view.untilState('dead');
    expect((await view.untilDone(request)).content).toMatchObject({ ename: 'DeadKernelError' });
    expect(client.snapshot.reason).toBe('exited with code 7');
    await expect(client.restart()).rejects.toMatchObject({ code: 'kernel_dead' });
    // A client that gets the reply has received the state before it.
    expect(client.snapshot).toMatchObject({ executionState: 'dead', reason: 'exited with code 7' });
  });

  it('handles a client’s own shutdown_request correctly', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    client.send(keeper.request('shutdown_request', { restart: true }, 'control').frame);
    await view.untilState('restarting');
    await view.untilState('idle');
    client.send(keeper.request('shutdown_request', { restart: false }, 'control').frame);
    await view.untilState('dead');
    expect(client.snapshot.reason).toBe('shutdown by a client');
  });

  it('runs an execution once, however often a client repeats the same id, and after the keeper was replaced too', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    const { msgId, frame } = keeper.request('execute_request', { code: 'print 1', silent: false });
    client.send(frame);
    client.send(frame);
    await view.untilDone(msgId);
    await view.untilDone(keeper.execute(client, 'print 2'));
    const requested = (): number =>
      view.messages.filter(({ fromClient, type }) => fromClient && type === 'execute_request').length;
    expect(requested()).toBe(2);
    expect(view.text).toBe('line 0\nline 0\nline 1\n');
    const { keeperPid } = client.snapshot;
    const start = await processStart(keeperPid);
    process.kill(keeperPid, 'SIGKILL');
    await expect.poll(() => isSameProcess(keeperPid, start), { timeout: 30_000 }).toBe(false);
    view = new GatewayView();
    const next = await keeper.attachOrAdopt(view);
    await next.subscribe();
    next.send(frame);
    await view.untilDone(keeper.execute(next, 'print 1'));
    expect(requested()).toBe(1);
    expect(await keeper.logs()).toContain('repeats an execution');
  });

  it('[17] shuts down in order: the kernel first, then itself, and leaves the journal and the logs', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    await view.untilDone(keeper.execute(client, 'print 1'));
    const { keeperPid, kernelPid } = client.snapshot;
    const start = await processStart(keeperPid);
    await client.shutdown();
    expect(await processStart(kernelPid!)).toBeNull();
    await client[Symbol.asyncDispose]();
    await expect.poll(() => isSameProcess(keeperPid, start), { timeout: 30_000 }).toBe(false);
    expect(view.isDisconnected).toBe(false);
    const { keeper: record, connection } = kernelPaths(keeper.kernelDir);
    for (const file of [record, connection, keeper.launch.runDir]) {
      await expect(stat(file)).rejects.toMatchObject({ code: 'ENOENT' });
    }
    await expect(attachKeeper(keeper.kernelDir, view)).rejects.toBeInstanceOf(KeeperEndedError);
    expect(await new JournalReader(kernelPaths(keeper.kernelDir).journal).lastSeq()).toBe(
      view.records.at(-1)!.seq
    );
  });

  it('[17] ends a kernel that ignores SIGTERM and does not listen, with all processes that it has started', async () => {
    keeper = await KeeperFixture.create({ shutdownWaitMs: 300 }, ['--ignore-sigterm']);
    const client = await keeper.ready(view);
    keeper.execute(client, 'child\nstall 600000');
    await view.until('the child runs', () => view.text.endsWith('\n'));
    const child = Number(view.text);
    const { kernelPid } = client.snapshot;
    await client.shutdown();
    expect(await processStart(kernelPid!)).toBeNull();
    await expect.poll(() => processStart(child), { timeout: 30_000 }).toBeNull();
    expect(await keeper.logs()).not.toContain('kernel_unkillable');
  });

  it('ends its kernel when it gets SIGTERM, and continues when it gets SIGHUP', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    const { keeperPid, kernelPid } = client.snapshot;
    process.kill(keeperPid, 'SIGHUP');
    await view.untilDone(keeper.execute(client, 'print 1'));
    process.kill(keeperPid, 'SIGTERM');
    await view.until('the connection ends', () => view.isDisconnected);
    await expect.poll(() => processStart(kernelPid!), { timeout: 30_000 }).toBeNull();
    await expect.poll(() => processStart(keeperPid), { timeout: 30_000 }).toBeNull();
  });

  it('reports the kernel that a killed keeper has left behind, by its pid', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    const { keeperPid, kernelPid } = client.snapshot;
    process.kill(keeperPid, 'SIGKILL');
    await view.until('the connection ends', () => view.isDisconnected);
    await expect(client.interrupt()).rejects.toMatchObject({ code: 'keeper_disconnected' });
    await expect.poll(() => processStart(keeperPid), { timeout: 30_000 }).toBeNull();
    await expect(attachKeeper(keeper.kernelDir, view)).rejects.toMatchObject({
      code: 'keeper_gone',
      keeper: { keeperPid, orphanPid: kernelPid }
    });
    process.kill(-kernelPid!, 'SIGKILL');
    await expect.poll(() => processStart(kernelPid!), { timeout: 30_000 }).toBeNull();
    // The kernel's pid now belongs to another process, as far as can be determined.
    const record = await readKeeperRecord(keeper.kernelDir);
    await writeFile(
      kernelPaths(keeper.kernelDir).keeper,
      JSON.stringify({ ...record, kernelPid: process.pid })
    );
    await expect(attachKeeper(keeper.kernelDir, view)).rejects.toMatchObject({ keeper: { orphanPid: null } });
  });

  it('does not start, and leaves nothing running, when the kernel’s program does not exist', async () => {
    keeper = await KeeperFixture.create({ argv: ['/nowhere/python', '{connection_file}'] });
    await expect(keeper.start(view)).rejects.toMatchObject({ code: 'kernel_start_failed' });
    await expect(attachKeeper(keeper.kernelDir, view)).rejects.toBeInstanceOf(KeeperEndedError);
  });

  it('does not start beside another keeper of the same kernel', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    await expect(keeper.start(new GatewayView())).rejects.toMatchObject({ code: 'keeper_exists' });
    await view.untilDone(keeper.execute(client, 'print 1'));
  });

  it('refuses a folder whose sockets would have names that are too long', async () => {
    keeper = await KeeperFixture.create({ runDir: join('/tmp', 'x'.repeat(100)) });
    await expect(keeper.start(view)).rejects.toMatchObject({ code: 'socket_path_too_long' });
  });

  it('[20] keeps its files and sockets to their owner', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    await view.untilDone(keeper.execute(client, 'print 1'));
    const {
      launch,
      connection,
      keeper: record,
      keeperLog,
      kernelLog,
      journal
    } = kernelPaths(keeper.kernelDir);
    const { runDir } = keeper.launch;
    const segment = join(journal, '00000000000000000001.seg');
    const sockets = ['keeper.sock', 'agent.sock'].map(name => join(runDir, name));
    for (const file of [launch, connection, record, keeperLog, kernelLog, segment, ...sockets]) {
      expect([file, (await stat(file)).mode & 0o777]).toEqual([file, 0o600]);
    }
    for (const folder of [keeper.kernelDir, journal, runDir]) {
      expect([folder, (await stat(folder)).mode & 0o777]).toEqual([folder, 0o700]);
    }
    expect(await keeper.logs()).not.toContain(
      (JSON.parse(await readFile(connection, 'utf8')) as { key: string }).key
    );
  });

  it('numbers telemetry, stores it for a gateway that comes later, and drops invalid messages', async () => {
    keeper = await KeeperFixture.create();
    const client = await keeper.ready(view);
    expect(await client.subscribeTelemetry(0)).toEqual({ historyFrom: 1, lastSeq: 0 });
    const messages = [
      '{"type":"hello","v":1}',
      'no JSON',
      '{"kind":"none"}',
      '{"type":"devices","devices":[]}'
    ];
    await view.untilDone(keeper.execute(client, messages.map(text => `telemetry ${text}`).join('\n')));
    const expected = [
      { seq: 1, json: messages[0] },
      { seq: 2, json: messages[3] }
    ];
    await view.until('telemetry has come', () => view.telemetryRecords.length === 2);
    expect(view.telemetryRecords).toEqual(expected);

    const later = new GatewayView();
    const second = await keeper.attach(later);
    expect(await second.subscribeTelemetry(1)).toEqual({ historyFrom: 1, lastSeq: 2 });
    await later.until('the rest has come', () => later.telemetryRecords.length === 1);
    expect(later.telemetryRecords).toEqual(expected.slice(1));
    expect(view.messages.some(({ type }) => type === 'devices')).toBe(false);
  });
});
