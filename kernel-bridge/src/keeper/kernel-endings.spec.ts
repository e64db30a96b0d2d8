import { once } from 'node:events';
import { appendFile, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { endpoint, readConnectionFile, shortConnection, writeConnectionFile } from './connection-file.js';
import { RequestedEnd, CrashCount, Executed } from './kernel-endings.js';
import { fillIn, causeOf, describeExit, killedForMemory } from './kernel-process.js';
import { STABLE_MS } from '../keeper-protocol/contract.js';

describe('crashes in a row', () => {
  it('allow as many restarts as the limit permits', () => {
    const crashes = new CrashCount(2);
    expect([0, 0, 0, 0].map(ms => crashes.mayRestart(ms))).toEqual([true, true, false, false]);
  });

  it('restart the count when the kernel has run for a while, or at an explicit restart', () => {
    const crashes = new CrashCount(1);
    expect([0, STABLE_MS, STABLE_MS, 0].map(ms => crashes.mayRestart(ms))).toEqual([true, true, true, false]);
    crashes.clear();
    expect(crashes.mayRestart(0)).toBe(true);
  });

  it('allow none when the limit is zero', () => {
    expect(new CrashCount(0).mayRestart(STABLE_MS)).toBe(false);
  });
});

// An end is a crash, even if a client requested a shutdown long before.
describe('an end that a client requested', () => {
  const message = (channel: 'shell' | 'control', content: object) => ({
    channel,
    parts: [{}, {}, {}, content].map(part => Buffer.from(JSON.stringify(part)))
  });
  const header = (msg_id: string, msg_type: string) => ({ msg_id, msg_type, session: 's' });
  const request = (restart = false): RequestedEnd => {
    const end = new RequestedEnd();
    end.sent(message('control', { restart }), header('ask', 'shutdown_request'));
    return end;
  };

  it('counts as requested, before the kernel answers and soon after', () => {
    expect(new RequestedEnd().endKind()).toBeNull();
    expect(request().endKind()).toBe('shutdown');
    const end = request(true);
    end.answered(header('ask', 'shutdown_request'), 1_000);
    expect(end.endKind(2_000)).toBe('restart');
  });

  it('counts as a crash when the kernel continues: long after its answer, or with a later request', () => {
    const answered = request();
    answered.answered(header('ask', 'shutdown_request'), 1_000);
    expect(answered.endKind(3_600_000)).toBeNull();
    const passedOver = request();
    passedOver.sent(message('shell', {}), header('cell', 'execute_request'));
    passedOver.answered(header('cell', 'execute_request'));
    expect(passedOver.endKind()).toBe('shutdown');
    passedOver.sent(message('control', {}), header('other', 'kernel_info_request'));
    passedOver.answered(header('other', 'kernel_info_request'));
    expect(passedOver.endKind()).toBeNull();
  });
});

it('remembers requested executions, the newest ten thousand', () => {
  const executed = new Executed();
  for (let n = 0; n <= 10_000; n++) expect(executed.add(`${n}`)).toBe(true);
  expect(executed.add('10000')).toBe(false);
  expect(executed.add('0')).toBe(true);
});

describe('a kernel that ends by itself', () => {
  it('reports the last line of its log, if it is an error of this process', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'log-'));
    const kernelLog = join(folder, 'kernel.log');
    await writeFile(kernelLog, 'OldError: before\n');
    const traces = { kernelLog, cwd: folder, oomKills: 0, logBytes: 17 };
    const reason = (code: number) => describeExit({ code, signal: null, cause: causeOf(code, null, traces) });
    expect(reason(1)).toBe('exited with code 1');
    await appendFile(kernelLog, 'Traceback\nRuntimeError: Invalid argument\n');
    expect(reason(1)).toBe('exited with code 1: RuntimeError: Invalid argument');
    expect(reason(0)).toBe('exited with code 0');
    await rm(folder, { recursive: true });
  });

  it('built with xeus gets sockets with short addresses, at which its keeper finds it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'a-run-folder-with-a-long-name-'));
    const file = join(folder, 'connection.json');
    const info = await writeConnectionFile(file, folder, 'xpython');
    expect(await shortConnection(file, ['python', '-m', 'tpulab.launcher'])).toBeNull();
    const short = (await shortConnection(file, ['python', '-m', 'xpython_launcher']))!;
    const given = await readConnectionFile(short.file);
    expect(endpoint(given, given.shell_port).length).toBeLessThan(32);
    expect(given).toEqual({ ...info, ip: given.ip });
    const server = createServer().listen(`${given.ip}-1`);
    const client = connect(`${info.ip}-1`);
    await once(client, 'connect');
    client.destroy();
    server.close();
    await short.remove();
    await expect(stat(dirname(given.ip))).rejects.toThrow('ENOENT');
    await rm(folder, { recursive: true });
  });
});

describe('a kernel that was killed', () => {
  it('is distinguished from a kernel that Linux has killed for lack of memory', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'vmstat-'));
    const vmstat = join(folder, 'vmstat');
    await writeFile(vmstat, 'oom_kill_disable 7\noom_kill 2\nnr_free 9\n');
    expect(killedForMemory(vmstat)).toBe(2);
    expect(killedForMemory(join(folder, 'absent'))).toBe(0);
    const killed = { code: null, signal: 'SIGKILL' as const };
    const traces = { kernelLog: '/logs/kernel.log', cwd: '/', oomKills: 2, logBytes: 0 };
    expect(describeExit({ ...killed, cause: causeOf(null, 'SIGKILL', traces, vmstat) })).toBe(
      'killed by SIGKILL'
    );
    await writeFile(vmstat, 'oom_kill 3\n');
    expect(describeExit({ ...killed, cause: causeOf(null, 'SIGKILL', traces, vmstat) })).toMatch(
      /^killed by SIGKILL, probably because the machine ran out of memory/
    );
    expect(
      describeExit({ code: null, signal: 'SIGTERM', cause: causeOf(null, 'SIGTERM', traces, vmstat) })
    ).toBe('killed by SIGTERM');
    await rm(folder, { recursive: true });
  });
});

describe('placeholders in the argv of a kernelspec', () => {
  const files = { connectionFile: '/home/a$&b/k.json' };
  const filled = (argument: string, resourceDir: string | null) => fillIn(argument, { resourceDir }, files);

  it('are the connection file, the folder of the kernelspec and the prefix of its environment', () => {
    const installed = '/opt/env/share/jupyter/kernels/r';
    expect(filled('{connection_file}', null)).toBe('/home/a$&b/k.json');
    expect(filled('--from={resource_dir}/x', installed)).toBe(`--from=${installed}/x`);
    expect(filled('{prefix}/bin/R', installed)).toBe('/opt/env/bin/R');
  });

  it('stay as they are where they have no value, or are not known', () => {
    expect(filled('{prefix}/bin/R', '/srv/specs/r')).toBe('{prefix}/bin/R');
    expect(filled('{"a": {other}}', null)).toBe('{"a": {other}}');
  });
});
