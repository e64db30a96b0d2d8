import { appendFile, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { JournalReader, JournalWriter } from '../../journal/index.js';
import { segmentFileName } from '../../journal/segment-file.js';
import { WriterLog } from '../../journal/testing/journal-folder.js';
import { leaveJournal } from '../../kernels/journal-folders.js';
import { processStart } from '@tpulab/platform/process-identity.js';
import { encodeV1 } from '../../jupyter/index.js';
import { run } from '../program.js';

vi.setConfig({ testTimeout: 60_000 });

let stateDir: string;

beforeEach(async () => {
  stateDir = await mkdtemp(path.join(tmpdir(), 'tpl-'));
});

afterEach(async () => {
  await rm(stateDir, { recursive: true, force: true });
  process.exitCode = undefined;
});

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly lines: string[];
  readonly json: Record<string, unknown>;
}

async function journal(...args: string[]): Promise<Outcome> {
  let stdout = '';
  let stderr = '';
  const code = await run(['journal', ...args, '--state-dir', stateDir], {
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) }
  });
  const lines = stdout.split('\n').filter(line => line !== '');
  return {
    code,
    stdout,
    stderr,
    lines,
    get json() {
      return JSON.parse(stdout) as Record<string, unknown>;
    }
  };
}

const journalDir = (id: string): string => path.join(stateDir, 'kernels', id, 'journal');

function frame(msgType: string, content: string, buffers: Buffer[] = []): Buffer {
  const header = { msg_id: `id-${msgType}`, msg_type: msgType, session: 's' };
  const parts = [JSON.stringify(header), '{"msg_id":"request-1"}', '{}', content].map(part =>
    Buffer.from(part)
  );
  return encodeV1({ channel: 'iopub', parts: [...parts, ...buffers] });
}

/** Twenty streams of about 300 bytes, four records per segment. */
async function makeKernel(state: 'running' | { endedDaysAgo: number }, id = randomUUID()): Promise<string> {
  const options = new WriterLog().options({ segmentBytes: 1_500 });
  const writer = await JournalWriter.open(journalDir(id), options);
  for (let index = 0; index < 20; index++) {
    const text = `line ${index} `.padEnd(100, '.');
    writer.append(3, [frame('stream', JSON.stringify({ name: 'stdout', text }))]);
    await turn();
  }
  await writer.close();
  const kernelDir = path.dirname(journalDir(id));
  if (state !== 'running') {
    const endedAt = new Date(Date.now() - state.endedDaysAgo * 24 * 3600 * 1000).toISOString();
    await leaveJournal(kernelDir, { kernelId: id, specName: 'python3', endedAt, reason: 'shut down' });
    return id;
  }
  const record = {
    kernelId: id,
    pid: process.pid,
    processStart: await processStart(process.pid),
    kernelPid: null,
    kernelProcessStart: null,
    startedAt: new Date().toISOString(),
    socketPath: '/nowhere'
  };
  await writeFile(path.join(kernelDir, 'keeper.json'), JSON.stringify(record));
  return id;
}

const newestSegment = async (id: string): Promise<string> =>
  path.join(journalDir(id), (await readdir(journalDir(id))).sort().at(-1)!);

const SENTENCE = /^[A-Z][^\n]+\.\n$/;

describe('tpulab journal list', () => {
  it('shows the journals of running kernels and the retained ones', async () => {
    const running = await makeKernel('running');
    const ended = await makeKernel({ endedDaysAgo: 1 });
    const { json } = await journal('list', '--json', '--gaps');
    const byId = Object.fromEntries(
      (json['journals'] as { kernel: string }[]).map(each => [each.kernel, each])
    );
    expect(byId[running]).toMatchObject({ state: 'running', records: 20, firstSeq: 1, lastSeq: 20, gaps: 0 });
    expect(byId[ended]).toMatchObject({
      state: 'ended',
      name: 'python3',
      records: 20,
      endedAt: expect.any(String) as string
    });
    const { lines } = await journal('list');
    expect(lines[0]).toMatch(/^2 journals, [\d.]+ KiB$/);
    expect(lines.filter(line => line.includes('20 records'))).toHaveLength(2);
  });

  it('reports that there are none, even without a state folder', async () => {
    expect((await journal('list')).stdout).toBe('0 journals, 0 B\n');
    await rm(stateDir, { recursive: true });
    expect((await journal('list', '--json')).json).toEqual({ journals: [], bytes: 0 });
  });
});

describe('tpulab journal show', () => {
  it('shows number, time, channel, type, size and parent, filtered as requested', async () => {
    const id = await makeKernel({ endedDaysAgo: 0 });
    const writer = await JournalWriter.open(journalDir(id), new WriterLog().options());
    writer.append(0x80, [frame('execute_request', '{"code":"1"}')]);
    await writer.close();
    expect((await journal('show', id)).lines).toHaveLength(21);
    const { lines } = await journal('show', id.slice(0, 8), '--from', '3', '--to', '4');
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^ +3 {2}\d{4}-\d\d-\d\dT[\d:.]+Z {3}iopub +stream +\d+ {2}request-1$/);
    const shown = await journal('show', id, '--type', 'execute_request', '--json');
    expect(shown.lines.map(line => JSON.parse(line) as object)).toMatchObject([
      { seq: 21, channel: 'shell', fromClient: true, msgType: 'execute_request', parentId: 'request-1' }
    ]);
    expect((await journal('show', id, '--to', '2000-01-01')).lines).toEqual([]);
    expect((await journal('show', id, '--from', '2000-01-01', '--channel', 'shell')).lines).toHaveLength(1);
  });

  it('shows missing records as a gap, in their place', async () => {
    const id = await makeKernel({ endedDaysAgo: 0 });
    await journal('prune', id, '--max-size', '2kB');
    const { lines } = await journal('show', id, '--from', '1');
    expect(lines[0]).toMatch(/^ +1 .*bridge +gap +\d+ missing \(journal_pruned\): Records 1 to \d+ are no/);
    const from = Number(/Records 1 to (\d+)/.exec(lines[0]!)![1]) + 1;
    expect(lines).toHaveLength(1 + 20 - from + 1);
  });

  it('follows a running kernel, and ends with the kernel', async () => {
    const id = await makeKernel('running');
    const writer = await JournalWriter.open(journalDir(id), new WriterLog().options());
    let stdout = '';
    const following = run(['journal', 'show', id, '--follow', '--from', '20', '--state-dir', stateDir], {
      stdout: { write: (text: string) => (stdout += text) },
      stderr: { write: () => undefined }
    });
    await vi.waitFor(() => expect(stdout).toContain('  stream'), 30_000);
    writer.append(3, [frame('error', '{}')]);
    await vi.waitFor(() => expect(stdout).toContain('  error'), 30_000);
    writer.append(3, [frame('display_data', '{}')]);
    await writer.close();
    const ended = { kernelId: id, specName: null, endedAt: new Date().toISOString(), reason: 'shut down' };
    await leaveJournal(path.dirname(journalDir(id)), ended);
    expect(await following).toBe(0);
    expect(stdout.match(/ {2}(stream|error|display_data) /g)).toEqual(
      ['stream', 'error', 'display_data'].map(type => `  ${type} `)
    );
  });
});

describe('tpulab journal verify', () => {
  it('finds no fault in intact journals, even while they are written', async () => {
    const id = await makeKernel('running');
    // The first bytes of a record of 200 bytes.
    await appendFile(await newestSegment(id), Buffer.from([200, 0, 0, 0, 1, 2, 3, 4, 21, 0, 0]));
    const { code, json } = await journal('verify', '--json');
    expect(code).toBe(0);
    expect(json).toMatchObject({ damaged: 0, journals: [{ records: 20, unfinishedBytes: 11, faults: [] }] });
  });

  it('fails and names segment and byte where a bit has flipped', async () => {
    const id = await makeKernel({ endedDaysAgo: 0 });
    const file = path.join(journalDir(id), segmentFileName(1));
    const bytes = await readFile(file);
    bytes[500]! ^= 4;
    await writeFile(file, bytes);
    const { code, stderr, stdout } = await journal('verify', id);
    expect(code).toBe(1);
    expect(stderr).toMatch(SENTENCE);
    const [, offset] = /at byte (\d+)/.exec(stderr)!;
    expect(Number(offset)).toBeLessThanOrEqual(500);
    expect(Number(offset)).toBeGreaterThan(500 - 400);
    expect(stdout).toContain('its checksum is wrong');
    expect((await journal('verify', id, '--json')).json).toMatchObject({
      damaged: 1,
      error: { code: 'journal_faulty' }
    });
  });

  it('reports a segment that is missing in the middle', async () => {
    const id = await makeKernel({ endedDaysAgo: 0 });
    const names = (await readdir(journalDir(id))).sort();
    await rm(path.join(journalDir(id), names[2]!));
    const { code, stdout } = await journal('verify', id);
    expect(code).toBe(1);
    expect(stdout).toContain('the next segment begins with record');
  });
});

describe('tpulab journal export', () => {
  it('writes the output of the kernel unchanged, buffers in base64, and invalid messages as their bytes', async () => {
    const id = randomUUID();
    const writer = await JournalWriter.open(journalDir(id), new WriterLog().options());
    // A number that JavaScript cannot represent, and line ends between the tokens.
    writer.append(3, [frame('a', '{"n":12345678901234567890,"t":"\\n"}', [Buffer.from([0, 255])])]);
    writer.append(3, [frame('b', '{\n"n": 1}')]);
    writer.append(3, [frame('c', 'NaN')]);
    await writer.close();
    const { lines } = await journal('export', id);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toContain('"content":{"n":12345678901234567890,"t":"\\n"},"buffers":["AP8="]');
    expect(JSON.parse(lines[1]!)).toMatchObject({
      seq: 2,
      channel: 'iopub',
      fromClient: false,
      content: { n: 1 }
    });
    const { frame: raw } = JSON.parse(lines[2]!) as { frame: string };
    expect(Buffer.from(raw, 'base64')).toEqual(frame('c', 'NaN'));
  });

  it('writes a file for its owner alone, and never over another', async () => {
    const id = await makeKernel({ endedDaysAgo: 0 });
    const file = path.join(stateDir, 'out.jsonl');
    expect((await journal('export', id, '--output', file, '--json')).json).toMatchObject({ records: 20 });
    expect((await readFile(file, 'utf8')).trimEnd().split('\n')).toHaveLength(20);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const again = await journal('export', id, '--output', file, '--json');
    expect(again.code).toBe(1);
    expect(again.stderr).toMatch(SENTENCE);
    expect(again.json).toMatchObject({ error: { code: 'export_not_written' } });
  });

  it('copies the files, and the copy is a journal again', async () => {
    const id = await makeKernel('running');
    const copy = path.join(stateDir, 'copy');
    expect((await journal('export', id, '--copy', copy)).code).toBe(0);
    expect((await journal('verify', copy, '--json')).json).toMatchObject({ journals: [{ records: 20 }] });
    expect((await journal('export', copy)).stdout).toBe((await journal('export', id)).stdout);
  });
});

describe('tpulab journal prune', () => {
  it('by default removes journals that ended two weeks ago, and only reports them in a dry run', async () => {
    const old = await makeKernel({ endedDaysAgo: 20 });
    const recent = await makeKernel({ endedDaysAgo: 10 });
    const running = await makeKernel('running');
    const dry = await journal('prune', '--dry-run', '--json');
    expect(dry.json).toMatchObject({ dryRun: true, removed: [{ kernel: old, whole: true }] });
    expect(await readdir(path.join(stateDir, 'kernels'))).toHaveLength(3);
    expect((await journal('prune')).stdout).toContain(old);
    expect((await readdir(path.join(stateDir, 'kernels'))).sort()).toEqual([recent, running].sort());
    expect((await journal('prune')).stdout).toBe('Nothing to remove.\n');
  });

  it('never removes the segment that a running kernel writes now', async () => {
    const id = await makeKernel('running');
    await journal('prune', '--older-than', '0s', '--max-size', '0');
    const retained = await new JournalReader(journalDir(id)).firstSeq();
    expect(retained).toBeGreaterThan(1);
    expect(await readdir(journalDir(id))).toEqual([segmentFileName(retained), 'trimmed.json']);
  });

  it.each([
    ['an invalid size', ['--max-size', 'much']],
    ['a duration without a unit', ['--older-than', '14']]
  ])('refuses %s', async (_what, args) => {
    const { code, stderr } = await journal('prune', ...args);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: /);
  });
});

describe('tpulab journal repair', () => {
  it('moves the damaged end aside and keeps it', async () => {
    const id = await makeKernel({ endedDaysAgo: 0 });
    await appendFile(await newestSegment(id), 'rubbish');
    const { json } = await journal('repair', id, '--json');
    expect(json).toMatchObject({ cuts: [{ damagedBytes: 7, why: 'it ends inside a record' }], faults: [] });
    const retained = (await readdir(journalDir(id))).find(name => name.endsWith('.damaged'))!;
    expect(await readFile(path.join(journalDir(id), retained), 'utf8')).toBe('rubbish');
    expect((await journal('repair', id)).stdout).toMatch(/is in order\.\n$/);
  });

  it('leaves the journal of a running kernel to its keeper', async () => {
    const id = await makeKernel('running');
    await appendFile(await newestSegment(id), 'being written');
    const before = await readFile(await newestSegment(id));
    const { code, stderr, json } = await journal('repair', id, '--json');
    expect([code, json]).toMatchObject([1, { error: { code: 'journal_in_use' } }]);
    expect(stderr).toMatch(SENTENCE);
    expect(await readFile(await newestSegment(id))).toEqual(before);
  });
});

describe('a requested kernel', () => {
  it('that does not exist is reported in one sentence and with an exit code', async () => {
    for (const command of ['show', 'verify', 'export', 'prune', 'repair']) {
      const { code, stderr, json } = await journal(command, 'ffffffff', '--json');
      expect([command, code, json]).toMatchObject([command, 1, { error: { code: 'kernel_unknown' } }]);
      expect(stderr).toMatch(SENTENCE);
    }
  });
});

describe('help', () => {
  it.each([[], ['list'], ['show'], ['verify'], ['export'], ['prune'], ['repair']])(
    'tpulab journal %s --help explains itself',
    async (...args) => {
      let stdout = '';
      const streams = {
        stdout: { write: (text: string) => (stdout += text) },
        stderr: { write: () => undefined }
      };
      expect(await run(['journal', ...args, '--help'], streams)).toBe(0);
      expect(stdout).toMatch(/^Usage: tpulab journal/);
    }
  );
});
