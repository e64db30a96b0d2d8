import { describe, expect, it } from 'vitest';
import { ReadCoalescer } from './zmtp-socket.js';

const MAX_MS = 8;

/** Reads one message of `bytes` every `everyMs`; gathers while it pauses. Returns the length of the last pause. */
function lastPause(pause: ReadCoalescer, { messages, bytes, everyMs }: Record<string, number>): number {
  let now = 1_000;
  let waited = 0;
  for (let left = messages!; left > 0;) {
    const arrived = Math.min(left, Math.max(1, Math.floor(waited / everyMs!)));
    now += Math.max(waited, everyMs!);
    waited = pause.after(arrived, arrived * bytes!, now);
    left -= arrived;
  }
  return waited;
}

describe('reading from a socket', () => {
  it('does not wait for the few messages of an ordinary cell', () => {
    expect(lastPause(new ReadCoalescer(MAX_MS), { messages: 10, bytes: 1_000, everyMs: 0.1 })).toBe(0);
  });

  it('does not wait when messages are far apart', () => {
    expect(lastPause(new ReadCoalescer(MAX_MS), { messages: 200, bytes: 1_000, everyMs: 10 })).toBe(0);
  });

  it('pauses in a flood', () => {
    expect(lastPause(new ReadCoalescer(MAX_MS), { messages: 200, bytes: 1_000, everyMs: 0.4 })).toBe(MAX_MS);
  });

  it('pauses less, or not at all, if the socket would fill up earlier', () => {
    const short = lastPause(new ReadCoalescer(MAX_MS), { messages: 500, bytes: 1_200, everyMs: 0.1 });
    expect(short).toBeGreaterThan(0);
    expect(short).toBeLessThan(MAX_MS);
    expect(lastPause(new ReadCoalescer(MAX_MS), { messages: 500, bytes: 20_000, everyMs: 0.1 })).toBe(0);
  });

  it('reads again immediately after a large read: the peer may have been waiting', () => {
    const pause = new ReadCoalescer(MAX_MS);
    expect(lastPause(pause, { messages: 200, bytes: 1_000, everyMs: 0.4 })).toBe(MAX_MS);
    expect(pause.after(40, 40_000, 2_000)).toBe(0);
  });

  it('stops pausing when few messages arrive during a pause', () => {
    const pause = new ReadCoalescer(MAX_MS);
    expect(lastPause(pause, { messages: 200, bytes: 1_000, everyMs: 0.4 })).toBe(MAX_MS);
    expect(pause.after(1, 1_000, 2_000)).toBe(0);
    expect(pause.after(1, 1_000, 2_001)).toBe(0);
  });

  it('does not wait after a message that begins or ends an execution', () => {
    const pause = new ReadCoalescer(MAX_MS);
    expect(lastPause(pause, { messages: 200, bytes: 1_000, everyMs: 0.4 })).toBe(MAX_MS);
    pause.flushNow();
    expect(pause.after(20, 20_000, 2_000)).toBe(0);
  });
});
