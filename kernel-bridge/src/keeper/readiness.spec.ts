import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Readiness } from './kernel-connection.js';

describe('[16] readiness', () => {
  let nudges: number;
  let readiness: Readiness;

  beforeEach(() => {
    vi.useFakeTimers();
    nudges = 0;
    readiness = new Readiness(() => nudges++);
    readiness.start();
  });

  it('sends the first request when stdin is connected, and without it after a while', () => {
    expect(nudges).toBe(0);
    vi.advanceTimersByTime(2_000);
    expect(nudges).toBe(1);
    readiness.connected();
    expect(nudges).toBe(2);
  });

  afterEach(() => {
    readiness.stop();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it.each([
    ['reply first', ['answered', 'receivedIopub']],
    ['iopub first', ['receivedIopub', 'answered']]
  ] as const)('needs an answer and a message on iopub: %s', async (_, [first, second]) => {
    readiness[first]();
    expect(readiness.isReady).toBe(false);
    readiness[second]();
    expect(readiness.isReady).toBe(true);
    await readiness.ready;
  });

  it('seldom repeats a request that the socket still queues', () => {
    readiness.connected();
    vi.advanceTimersByTime(10_000);
    expect(nudges).toBe(6);
  });

  it('repeats it often when it was answered but iopub sent nothing', () => {
    readiness.connected();
    readiness.answered();
    vi.advanceTimersByTime(500);
    expect(nudges).toBe(11); // The first, and one every 50 ms.
    readiness.receivedIopub();
    vi.advanceTimersByTime(10_000);
    expect(nudges).toBe(11);
  });
});
