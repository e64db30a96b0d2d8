/** How much of this machine's disk a remote may use, whatever it sends. */
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { STREAM_FRAME, type StreamNote } from '@tpulab/protocol';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { JOURNAL_LIMITS, JournalReader } from '../../journal/index.js';
import { RECORD_OVERHEAD, writeRecord } from '../../journal/record-codec.js';
import { silent } from '../../testing/temporary-gateway.js';
import { MirrorBudget } from './mirror-budget.js';
import { MirroredJournal } from './mirrored-journal.js';
import { Mirrors } from './mirrors.js';

vi.setConfig({ testTimeout: 120_000 });

const MIB = 1024 * 1024;
let folder: string;
beforeEach(async () => (folder = await mkdtemp(path.join(tmpdir(), 'tpl-'))));
afterEach(() => rm(folder, { recursive: true, force: true }));

function record(seq: number, bytes: number): Buffer {
  const payload = Buffer.alloc(bytes, 'x');
  const all = Buffer.alloc(RECORD_OVERHEAD + payload.length);
  writeRecord(all, 0, seq, BigInt(seq), 4, [payload]);
  return all;
}

async function onDisk(place = folder): Promise<{ bytes: number; segments: number; aside: number }> {
  const sum = { bytes: 0, segments: 0, aside: 0 };
  for (const entry of await readdir(place, { withFileTypes: true }).catch(() => [])) {
    const file = path.join(place, entry.name);
    if (entry.isDirectory()) {
      const inside = await onDisk(file);
      sum.bytes += inside.bytes;
      sum.segments += inside.segments;
      sum.aside += inside.aside + (entry.name.startsWith('journal.other') ? 1 : 0);
    } else {
      sum.bytes += (await stat(file)).size;
      if (entry.name.endsWith('.seg')) sum.segments++;
    }
  }
  return sum;
}

const LIMIT = MIB;
const FRAME = 100_000;

it('is bounded at every moment: bytes, segments and archived copies', async () => {
  const step = fc.record({
    kernel: fc.integer({ min: 0, max: 4 }),
    what: fc.constantFrom('records', 'records', 'hole', 'restart', 'again'),
    bytes: fc.constantFrom(1, 1000, FRAME)
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 120 }), async steps => {
      const directory = await mkdtemp(path.join(folder, 'r-'));
      const limits = { kernelBytes: LIMIT, totalBytes: LIMIT };
      const open = new Map<number, MirroredJournal>();
      // A restarted gateway knows only the files on disk.
      let budget = new MirrorBudget({ directory, limits });
      for (const { kernel, what, bytes } of steps) {
        const place = path.join(directory, 'kernels', `k${kernel}`);
        const journal = open.get(kernel) ?? (await MirroredJournal.open(place, budget));
        open.set(kernel, journal);
        if (what === 'restart') await journal.restart();
        else if (what === 'again') {
          for (const one of open.values()) await one[Symbol.asyncDispose]();
          open.clear();
          budget = new MirrorBudget({ directory, limits });
        } else await journal.append(record(journal.nextSeq + (what === 'hole' ? 5 : 0), bytes));
        const found = await onDisk(directory);
        expect(found.bytes).toBeLessThanOrEqual(LIMIT + FRAME + 1000);
        expect((await onDisk(path.join(place, 'journal'))).segments).toBeLessThanOrEqual(64);
      }
      for (const one of open.values()) await one[Symbol.asyncDispose]();
      await rm(directory, { recursive: true });
    }),
    { numRuns: 12 }
  );
});

it('applies to holes and archived copies, however many: the newest stay, and readers see a gap', async () => {
  const directory = path.join(folder, 'mirror');
  const full = vi.fn();
  const budget = new MirrorBudget({
    directory,
    limits: { kernelBytes: LIMIT, totalBytes: LIMIT },
    onFull: full
  });
  await using journal = await MirroredJournal.open(path.join(directory, 'kernels', 'k'), budget);
  for (let count = 0; count < 40; count++) {
    await journal.append(record(1, 60_000));
    await journal.restart();
  }
  for (let seq = 1; seq < 400; seq += 2) await journal.append(record(seq, 100));
  const found = await onDisk(directory);
  expect(found.segments).toBeLessThanOrEqual(64 + 16);
  expect(found.aside).toBeLessThanOrEqual(16);
  expect(found.bytes).toBeLessThanOrEqual(LIMIT);
  expect(full).toHaveBeenCalledTimes(1);
  expect(await budget.use()).toMatchObject({ kernels: 1, putAside: found.aside });
  const seen: string[] = [];
  for await (const batch of new JournalReader(journal.journalDir).readAcross(1, { newest: () => 399 })) {
    for (const { payload } of batch) if (payload.includes('"gap"')) seen.push(payload.toString());
  }
  expect(JSON.parse(seen[0]!)).toMatchObject({ type: 'gap', fromSeq: 1 });
});

it('pauses a kernel whose remote repeatedly begins new journals, and its log states so', async () => {
  const kernelId = '00000000-0000-4000-8000-000000000001';
  const frame = (type: number, body: Buffer): Buffer => {
    const head = Buffer.alloc(5);
    head.writeUInt32LE(body.length, 0);
    head.writeUInt8(type, 4);
    return Buffer.concat([head, body]);
  };
  const restart = frame(
    STREAM_FRAME.note,
    Buffer.from(JSON.stringify({ kind: 'restart' } satisfies StreamNote))
  );
  let streams = 0;
  const far = createServer((request, response) => {
    if (!request.url!.includes('/journal/stream')) return void response.writeHead(404).end();
    streams++;
    for (let count = 0; count < 30; count++) {
      response.write(frame(STREAM_FRAME.records, record(1, 1000)));
      response.write(restart);
    }
    response.end();
  });
  const sockets = new WebSocketServer({ server: far });
  const event = { topic: 'kernels', kernelId, name: 'python3', executionState: 'busy', connections: 0 };
  sockets.on('connection', socket =>
    socket.send(JSON.stringify({ op: 'events', events: [{ ...event, reason: null, removed: false }] }))
  );
  const socketPath = path.join(folder, 'far.sock');
  await once(far.listen(socketPath), 'listening');
  const lines: string[] = [];
  const mirrors = new Mirrors({
    stateDir: folder,
    limits: JOURNAL_LIMITS,
    log: silent(),
    onLog: (_remote, line) => lines.push(line)
  });
  await mirrors.attach('liar', { socketPath, token: 'x' });
  await vi.waitFor(
    () => expect(lines.join('\n')).toContain(`kernel ${kernelId} is not copied for 10 minutes`),
    60_000
  );
  expect(streams).toBe(1);
  expect((await onDisk()).aside).toBe(3);
  // A new connection does not reset the limit.
  await mirrors.attach('liar', { socketPath, token: 'x' });
  await vi.waitFor(() => expect(lines).toHaveLength(2), 60_000);
  expect((await onDisk()).aside).toBe(3);
  await mirrors[Symbol.asyncDispose]();
  far.closeAllConnections();
  far.close();
});
