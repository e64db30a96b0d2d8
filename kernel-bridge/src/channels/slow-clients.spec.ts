import { afterEach, describe, expect, it, vi } from 'vitest';
import { type ChannelsClient, isStatus, type Message } from '../testing/channels-client.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let bridge: TemporaryGateway;

afterEach(async () => bridge[Symbol.asyncDispose]());

const LINES = 3000;
const FLOOD = `
from IPython.display import display
for n in range(${LINES}): display({'text/plain': str(n), 'text/html': 'x' * 4000}, raw=True)
`;

function numbers(messages: readonly Message[], id: string): number[] {
  const seen = new Set<string>();
  return messages
    .filter(({ header, parent }) => header.msg_type === 'display_data' && parent.msg_id === id)
    .filter(({ header }) => !seen.has(header.msg_id) && seen.add(header.msg_id))
    .map(({ content }) => Number((content['data'] as Record<string, string>)['text/plain']));
}

function untilIdle(client: ChannelsClient, id: string): Promise<true> {
  return client.until(() => client.answers(id).some(message => isStatus(message, 'idle')) || null);
}

describe('a client that does not read its messages', () => {
  it('[12] is closed with 1013 after a while, disturbs no other client, and gets everything when it reconnects', async () => {
    bridge = await TemporaryGateway.start({
      limits: { congestedBytes: 256 * 1024, refillBytes: 64 * 1024 },
      // Both ends are in this process: the fast client needs time for its answer when the process stalled.
      confirmation: { heartbeatMs: 1_000, silenceMs: 8_000, closeGraceMs: 60_000 }
    });
    await bridge.gateway.ready;
    const kernelId = await bridge.startKernel({ name: 'lossless' });
    using slow = await bridge.connect(kernelId, { sessionId: 'slow' });
    using quick = await bridge.connect(kernelId, { sessionId: 'quick' });
    await Promise.all([slow.run('pass'), quick.run('pass')]);
    slow.pause();
    const id = quick.execute(FLOOD);
    await connectionsAre(kernelId, 1);
    slow.resume();
    expect((await slow.untilClosed()).code).toBe(1013);
    await quick.done(id);
    expect(numbers(quick.messages, id)).toHaveLength(LINES);

    using again = await bridge.connect(kernelId, { sessionId: 'slow' });
    await untilIdle(again, id);
    expect(numbers([...slow.messages, ...again.messages], id)).toEqual(
      Array.from({ length: LINES }, (_, n) => n)
    );
    expect(quick.closed).toBeNull();
  });

  it('[12] is disconnected in favour of others when the data for all slow clients exceeds the limit', async () => {
    bridge = await TemporaryGateway.start({
      limits: { congestedBytes: 512 * 1024, refillBytes: 64 * 1024 },
      unsentLimitBytes: 768 * 1024,
      confirmation: { closeGraceMs: 60_000 }
    });
    await bridge.gateway.ready;
    const kernelId = await bridge.startKernel({ name: 'lossless' });
    using first = await bridge.connect(kernelId, { sessionId: 'first' });
    using second = await bridge.connect(kernelId, { sessionId: 'second' });
    using quick = await bridge.connect(kernelId, { sessionId: 'quick' });
    await Promise.all([first.run('pass'), second.run('pass'), quick.run('pass')]);
    first.pause();
    second.pause();
    const id = quick.execute(FLOOD);
    await connectionsAre(kernelId, 2);
    first.resume();
    second.resume();
    const [shed, retained] = await quickest(first, second, id);
    expect((await shed.untilClosed()).code).toBe(1013);
    expect(numbers(retained.messages, id)).toHaveLength(LINES);
    await quick.done(id);
    using again = await bridge.connect(kernelId, { sessionId: shed.sessionId });
    await untilIdle(again, id);
    expect(numbers([...shed.messages, ...again.messages], id)).toHaveLength(LINES);
    expect(quick.closed).toBeNull();
  });
});

/** A disconnected client has one minute here to read the close reason, so this polls immediately, not after the flood. */
function connectionsAre(kernelId: string, count: number): Promise<unknown> {
  const { registry } = bridge.gateway;
  return vi.waitUntil(() => registry.get(kernelId).connections === count, { timeout: 60_000, interval: 20 });
}

/** Which of two clients was disconnected first, and which was served to the end. */
async function quickest(
  one: ChannelsClient,
  two: ChannelsClient,
  id: string
): Promise<[ChannelsClient, ChannelsClient]> {
  const oneEnds = one.untilClosed().then(async (): Promise<[ChannelsClient, ChannelsClient]> => {
    await untilIdle(two, id);
    return [one, two];
  });
  const twoEnds = two.untilClosed().then(async (): Promise<[ChannelsClient, ChannelsClient]> => {
    await untilIdle(one, id);
    return [two, one];
  });
  const ended = await Promise.race([oneEnds, twoEnds]);
  // The other client never gets this end in this test.
  oneEnds.catch(() => undefined);
  twoEnds.catch(() => undefined);
  return ended;
}
