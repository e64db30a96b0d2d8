import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { measureSegments } from '../journal/journal-trim.js';
import { segmentBytesFor } from '../journal/journal-limits.js';
import type { Message } from '../testing/channels-client.js';
import { gatewayForAll } from '../testing/shared-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const MIB = 1024 * 1024;
const QUOTA = 4 * MIB;
const bridge = gatewayForAll({ journal: { kernelBytes: QUOTA } });
let kernelId: string;

beforeAll(async () => {
  kernelId = await bridge.startKernel({ name: 'lossless' });
});

const isNotice = ({ header, content }: Message): boolean =>
  header.msg_type === 'stream' && String(content['text']).startsWith('[tpulab] ');

const LINES = 8000;
const PART = 1000;

/** Numbered lines of 1 KB. All parts together exceed the quota, one is far below it. */
function part(from: number): string {
  return `
from IPython.display import display
for n in range(${from}, ${from + PART}): display({'text/plain': f'{n:06} ' + 'x' * 1000}, raw=True)
`;
}

function numbers(messages: readonly Message[]): number[] {
  return messages
    .filter(({ header }) => header.msg_type === 'display_data')
    .map(({ content }) => Number((content['data'] as Record<string, string>)['text/plain']!.slice(0, 6)));
}

/** Resolves when the old segments are removed: writing continues meanwhile, and the gap grows until then. */
async function oldSegmentsAreRemoved(): Promise<void> {
  const { directory } = bridge.gateway.registry.get(kernelId);
  await vi.waitFor(async () => {
    const closed = (await measureSegments(path.join(directory, 'journal'))).slice(0, -1);
    const bytes = closed.reduce((sum, segment) => sum + segment.bytes, 0);
    expect(bytes).toBeLessThanOrEqual(QUOTA - segmentBytesFor(QUOTA));
  }, 60_000);
}

describe('a client that reconnects when the journal no longer has its next messages', () => {
  it('[13] is notified beside the output of the number of missing messages and the reason, and gets the rest in order', async () => {
    using before = await bridge.connect(kernelId, { sessionId: 'away' });
    await before.run('print("here")');
    const seen = bridge.gateway.registry.get(kernelId).lastSeq;
    await before.abort();
    using other = await bridge.connect(kernelId, { sessionId: 'present' });
    // In parts: a client that falls behind by more than the quota also misses output, however fast it reads.
    for (let from = 0; from < LINES; from += PART) await other.run(part(from));
    // An attached client has missed nothing, and gets no notice.
    expect(numbers(other.messages)).toEqual(Array.from({ length: LINES }, (_, n) => n));
    expect(other.messages.filter(isNotice)).toEqual([]);

    await oldSegmentsAreRemoved();
    using again = await bridge.connect(kernelId, { sessionId: 'away', resume: seen });
    await again.until(() => numbers(again.messages).at(-1) === LINES - 1);
    const notices = again.messages.filter(isNotice);
    expect(notices).toHaveLength(1);
    const [notice] = notices as [Message];
    const retained = numbers(again.messages);
    expect(retained).toEqual(
      Array.from({ length: retained.length }, (_, index) => LINES - retained.length + index)
    );
    expect(retained.length).toBeLessThan(LINES / 2);
    // Before the first output that remains, as output of the same request, in the kernel's own session.
    const first = again.messages.find(({ header }) => header.msg_type === 'display_data')!;
    expect(again.messages.indexOf(notice)).toBeLessThan(again.messages.indexOf(first));
    expect(notice.channel).toBe('iopub');
    expect(first.parent.msg_id).toBeDefined();
    expect(notice.parent.msg_id).toBe(first.parent.msg_id);
    expect(notice.header.session).toBe(first.header.session);
    expect(notice.content['name']).toBe('stderr');
    const { gap } = (
      notice.metadata as unknown as { tpulab: { gap: { count: number; fromSeq: number; toSeq: number } } }
    ).tpulab;
    expect(gap).toMatchObject({ type: 'gap', code: 'journal_quota', fromSeq: seen + 1 });
    expect(gap.count).toBe(gap.toSeq - gap.fromSeq + 1);
    expect(notice.content['text']).toContain(`${gap.count} messages are missing here`);

    // A client that drops repeated messages drops the notice too.
    using third = await bridge.connect(kernelId, { sessionId: 'away-again', resume: seen });
    await third.until(() => third.messages.some(isNotice));
    expect(third.messages.find(isNotice)!.header.msg_id).toBe(notice.header.msg_id);
  });

  it('leaves only the journal of a kernel that was shut down', async () => {
    const ended = await bridge.startKernel({ name: 'lossless' });
    using client = await bridge.connect(ended);
    await client.run('print("last words")');
    const { directory } = bridge.gateway.registry.get(ended);
    expect((await bridge.rest('DELETE', `/api/kernels/${ended}`)).status).toBe(204);
    expect(await readdir(directory)).toEqual(expect.arrayContaining(['ended.json', 'journal']));
    // The keeper removes its own files after it has answered.
    await vi.waitFor(async () => {
      const left = await readdir(directory);
      expect(left.filter(name => /^(launch|keeper|connection)\.json$|^positions$/.test(name))).toEqual([]);
    }, 60_000);
    expect(path.basename(directory)).toBe(ended);
  });
});
