import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, connect as connectTo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { CellExecution, OutputsPage } from '@tpulab/protocol';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { JOURNAL_LIMITS, JournalReader } from '../../journal/index.js';
import { RECORD_OVERHEAD, writeRecord } from '../../journal/record-codec.js';
import { segmentFileName } from '../../journal/segment-file.js';
import { silent, TemporaryGateway, TOKEN } from '../../testing/temporary-gateway.js';
import { MirroredJournal } from './mirrored-journal.js';
import { Mirrors } from './mirrors.js';
import { framesOf } from './stream-frames.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** The tunnel: a unix socket of this machine that leads to the gateway of the remote, until the test cuts it. */
class Tunnel implements AsyncDisposable {
  readonly #open = new Set<Socket>();
  #isClosed = false;
  private constructor(
    readonly socketPath: string,
    readonly server: Server
  ) {}

  static async to(url: string, socketPath: string): Promise<Tunnel> {
    const { hostname, port } = new URL(url);
    const tunnel = new Tunnel(
      socketPath,
      createServer(near => {
        if (tunnel.#isClosed) {
          near.destroy();
          return;
        }
        const far = connectTo(Number(port), hostname);
        for (const [one, other] of [
          [near, far],
          [far, near]
        ] as const) {
          tunnel.#open.add(one);
          one.on('error', () => undefined);
          one.on('close', () => other.destroy());
          one.pipe(other);
        }
      })
    );
    await new Promise<void>(resolve => tunnel.server.listen(socketPath, resolve));
    return tunnel;
  }

  /** Cuts open connections; new ones are accepted immediately. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
    this.#open.clear();
  }

  /** Simulates the end of the machine at the other end. */
  end(): void {
    this.#isClosed = true;
    this.cut();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise(resolve => this.server.close(resolve));
    this.cut();
    await closed;
  }
}

let folder: string;
let remote: TemporaryGateway;
let tunnel: Tunnel;
let mirrors: Mirrors;
let kernelId: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpm-'));
  remote = await TemporaryGateway.start();
  await remote.gateway.ready;
  tunnel = await Tunnel.to(remote.url, path.join(folder, 'tunnel.sock'));
  mirrors = new Mirrors({ stateDir: folder, limits: JOURNAL_LIMITS, log: silent() });
  kernelId = await remote.startKernel({ name: 'lossless' });
});

afterEach(async () => {
  await mirrors[Symbol.asyncDispose]();
  await tunnel[Symbol.asyncDispose]();
  await remote[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const attach = (): Promise<void> => mirrors.attach('my-tpu', { socketPath: tunnel.socketPath, token: TOKEN });
const here = (): string => path.join(folder, 'mirrors', 'my-tpu', 'kernels', kernelId, 'journal');
const there = (): string => path.join(remote.folder, 'kernels', kernelId, 'journal');

async function run(code: string, cellId = 'cell'): Promise<void> {
  using client = await remote.connect(kernelId);
  await client.done(client.execute(code, {}, { cellId }));
}

async function records(dir: string): Promise<string[]> {
  const all: string[] = [];
  for await (const { seq, timeNs, channel, payload } of new JournalReader(dir).read(1)) {
    all.push(`${seq} ${timeNs} ${channel} ${payload.toString('base64')}`);
  }
  return all;
}

/** Resolves when everything written before the call has arrived here. */
async function caughtUp(): Promise<void> {
  const wanted = await new JournalReader(there()).lastSeq();
  await vi.waitFor(
    async () => expect(await new JournalReader(here()).lastSeq()).toBeGreaterThanOrEqual(wanted),
    {
      timeout: 60_000,
      interval: 50
    }
  );
}

async function printed(): Promise<string> {
  const page = await mirrors.outputs('my-tpu').read(kernelId, { cells: new Set(['cell']) });
  return page.executions.map(textOf).join('');
}

function textOf({ outputs }: CellExecution): string {
  return outputs.map(({ output }) => (output.output_type === 'stream' ? output.text : '')).join('');
}

describe('the mirror of a remote kernel', () => {
  it('has the same records as the remote, while the kernel continues to print', async () => {
    await run("print('before')");
    await attach();
    await caughtUp();
    await run('for i in range(2000): print(i, flush=True)', 'flood');
    await caughtUp();
    const copied = await records(here());
    expect(copied).toEqual((await records(there())).slice(0, copied.length));
    expect(await printed()).toBe('before\n');
  });

  it('resumes when the connection comes back, and in another process', async () => {
    await attach();
    await run("print('one')");
    await caughtUp();
    tunnel.cut();
    await run("print('two')");
    await caughtUp();
    await mirrors[Symbol.asyncDispose]();
    await run("print('three')", 'last');
    mirrors = new Mirrors({ stateDir: folder, limits: JOURNAL_LIMITS, log: silent() });
    await attach();
    await caughtUp();
    expect(await records(here())).toEqual(await records(there()));
    expect(readdirSync(path.dirname(here()))).not.toContain('journal.other');
  });

  it('detects that the kernel has ended, even while no gateway was connected', async () => {
    await attach();
    await run("print('goodbye')");
    await caughtUp();
    await mirrors.detach('my-tpu');
    await remote.gateway.registry.remove(kernelId);
    await attach();
    await vi.waitFor(
      async () => {
        expect(await mirrors.kernels('my-tpu')).toMatchObject([
          { kernelId, state: 'ended', name: 'lossless' }
        ]);
      },
      { timeout: 60_000, interval: 100 }
    );
    expect(await printed()).toBe('goodbye\n');
    expect(await records(here())).toEqual(await records(there()));
  });

  it('knows the notebooks of a kernel, and distinguishes a shutdown from the loss of the machine', async () => {
    await attach();
    const session = { path: 'deep/far.ipynb', type: 'notebook', name: 'far', kernel: { id: kernelId } };
    expect((await remote.rest('POST', '/api/sessions', { body: session })).status).toBe(201);
    await run("print('of a notebook')");
    await vi.waitFor(
      async () =>
        expect(await mirrors.kernels('my-tpu')).toMatchObject([
          { kernelId, documents: ['deep/far.ipynb'], wasShutDown: false }
        ]),
      { timeout: 60_000, interval: 100 }
    );
    await remote.gateway.registry.remove(kernelId);
    await vi.waitFor(
      async () =>
        expect(await mirrors.kernels('my-tpu')).toMatchObject([
          { state: 'ended', wasShutDown: true, documents: ['deep/far.ipynb'] }
        ]),
      { timeout: 60_000, interval: 100 }
    );
  });

  it('reports that the machine no longer knows its kernel, as after it was recreated', async () => {
    await attach();
    await run("print('kept')");
    await caughtUp();
    await mirrors.detach('my-tpu');
    await remote.gateway.registry.remove(kernelId);
    // Its keeper is still archiving its files.
    await rm(path.join(remote.folder, 'kernels'), { recursive: true, force: true, maxRetries: 10 });
    await attach();
    await vi.waitFor(
      async () =>
        expect(await mirrors.kernels('my-tpu')).toMatchObject([
          { kernelId, state: 'unknown', endedAt: null, wasShutDown: false }
        ]),
      { timeout: 60_000, interval: 100 }
    );
    expect(await printed()).toBe('kept\n');
  });

  it('can be read after the machine of the remote has ended', async () => {
    await attach();
    await run("print('kept')");
    await caughtUp();
    tunnel.end();
    await remote.gateway.registry.remove(kernelId);
    // Its keeper is still archiving its files.
    await rm(path.join(remote.folder, 'kernels'), { recursive: true, force: true, maxRetries: 10 });
    expect(await printed()).toBe('kept\n');
    expect(await mirrors.kernels('my-tpu')).toMatchObject([{ kernelId, endedAt: null, wasShutDown: false }]);
  });

  it('restarts after a removal while the remote is reachable, and stays removed while it is not', async () => {
    await attach();
    await run("print('first')");
    await caughtUp();
    await mirrors.remove('my-tpu');
    await run("print('second')");
    await caughtUp();
    expect(await records(here())).toEqual(await records(there()));
    await mirrors.detach('my-tpu');
    await mirrors.remove('my-tpu');
    expect(await mirrors.has('my-tpu')).toBe(false);
  });

  it('cuts a torn record at its end, which is then sent again', async () => {
    await attach();
    await run("print('whole')");
    await caughtUp();
    await mirrors.detach('my-tpu');
    const segment = path.join(
      here(),
      readdirSync(here()).find(name => name.endsWith('.seg'))!
    );
    truncateSync(segment, statSync(segment).size - 7);
    await attach();
    await caughtUp();
    expect(await records(here())).toEqual(await records(there()));
  });

  it('archives its copy when the remote has a different journal for the same kernel', async () => {
    await attach();
    await run("print('one')");
    await caughtUp();
    await mirrors.detach('my-tpu');
    const [first] = readdirSync(here()).filter(name => name.endsWith('.seg'));
    // Another journal of the same length: its last record has another time, and so another checksum.
    const story = readFileSync(path.join(there(), first!));
    await rm(here(), { recursive: true });
    mkdirSync(here(), { mode: 0o700 });
    appendFileSync(path.join(here(), first!), story.subarray(0, 32));
    {
      await using other = await MirroredJournal.open(path.dirname(here()));
      const record = Buffer.alloc(RECORD_OVERHEAD + 2);
      writeRecord(record, 0, 1, 1n, 4, [Buffer.from('{}')]);
      await other.append(record);
    }
    await mirrors[Symbol.asyncDispose]();
    const lines: string[] = [];
    const log = pino({}, { write: line => lines.push(line) });
    mirrors = new Mirrors({ stateDir: folder, limits: JOURNAL_LIMITS, log });
    await attach();
    await caughtUp();
    expect(await records(here())).toEqual(await records(there()));
    expect(readdirSync(path.dirname(here()))).toContain('journal.other');
    expect(lines.join('')).toContain('the machine has another journal');
    await vi.waitFor(() => expect(mirrors.totals('my-tpu').putAside).toBe(1), { timeout: 60_000 });
  });

  it('has a hole, reported to readers, for records that the remote no longer has', async () => {
    await attach();
    await run("print('kept here')");
    await caughtUp();
    await mirrors.detach('my-tpu');
    // The effect of a quota: the segment is removed, and the kernel continues in another.
    await run("print('x' * 3_000_000)", 'large');
    const [first] = readdirSync(there()).filter(name => name.endsWith('.seg'));
    await remote.gateway.registry.remove(kernelId);
    const lastSeq = await new JournalReader(there()).lastSeq();
    await rm(path.join(there(), first!));
    {
      await using later = await MirroredJournal.open(path.join(folder, 'later'));
      const record = Buffer.alloc(RECORD_OVERHEAD + 2);
      writeRecord(record, 0, lastSeq + 1, 1n, 4, [Buffer.from('{}')]);
      await later.append(record);
      copyFileSync(
        path.join(
          later.journalDir,
          readdirSync(later.journalDir).find(name => name.endsWith('.seg'))!
        ),
        path.join(there(), segmentFileName(lastSeq + 1))
      );
    }
    await attach();
    await vi.waitFor(async () => expect(await new JournalReader(here()).lastSeq()).toBeGreaterThan(lastSeq), {
      timeout: 60_000,
      interval: 50
    });
    const gaps: string[] = [];
    for await (const batch of new JournalReader(here()).readAcross(1, { newest: () => lastSeq + 1 })) {
      for (const { payload } of batch) if (payload.includes('"gap"')) gaps.push(payload.toString());
    }
    expect(gaps).toHaveLength(1);
    expect(JSON.parse(gaps[0]!)).toMatchObject({ type: 'gap', toSeq: lastSeq });
    expect(await printed()).toBe('kept here\n');
  });

  it('is served by the gateway that stores it, and only for known remotes', async () => {
    await run("print('served')");
    await attach();
    await caughtUp();
    await mirrors[Symbol.asyncDispose]();
    await using laptop = await TemporaryGateway.start({ stateDir: folder });
    await laptop.gateway.ready;
    const at = '/bridge/v1/machines/my-tpu/mirror';
    expect((await laptop.rest('GET', at)).body).toMatchObject({ kernels: [{ kernelId, state: 'behind' }] });
    const { body } = await laptop.rest('GET', `${at}/${kernelId}/outputs`);
    expect((body as OutputsPage).executions.map(textOf)).toContain('served\n');
    expect((await laptop.rest('GET', `${at}/${kernelId}/journal?limit=2`)).body).toMatchObject({
      entries: [{ seq: 1 }, { seq: 2 }]
    });
    expect((await laptop.rest('GET', `/bridge/v1/machines/other/mirror/${kernelId}/outputs`)).status).toBe(
      404
    );
    expect((await laptop.rest('DELETE', at)).status).toBe(204);
    expect((await laptop.rest('GET', at)).body).toEqual({ kernels: [] });
    expect(readdirSync(path.join(folder, 'mirrors'))).toEqual([]);
  });

  it('is not disturbed by a remote that sends other data', async () => {
    const bytes = Buffer.from([255, 255, 255, 255, 1, 2, 3]);
    await expect(framesOf(chunks(bytes)).next()).rejects.toThrow('impossible');
    await expect(framesOf(chunks(Buffer.from([1, 0, 0, 0, 9, 0]))).next()).rejects.toThrow('type 9');
    await using journal = await MirroredJournal.open(path.join(folder, 'odd'));
    await expect(journal.append(Buffer.from('not a record at all, but long enough'))).rejects.toThrow(
      'Invalid record stream'
    );
    expect(journal.nextSeq).toBe(1);
  });
});

async function* chunks(...all: Buffer[]): AsyncGenerator<Buffer, void, void> {
  for (const chunk of all) yield await Promise.resolve(chunk);
}
