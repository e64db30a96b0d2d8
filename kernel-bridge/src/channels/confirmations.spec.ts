import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { CONFIRMATION_DEFAULTS, Confirmations } from './confirmations.js';

/** A socket whose pings a test answers at any time; the timers are vitest's. */
class FakeSocket extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  readonly pings: string[] = [];

  ping(payload: string): void {
    this.pings.push(payload);
  }

  answer(payload = this.pings.at(-1) ?? ''): void {
    this.emit('pong', Buffer.from(payload));
  }
}

let socket: FakeSocket;
let position: number;
let confirmed: number[];
let silences: number;

function watch(byPong = true): Confirmations {
  const events = {
    position: () => position,
    confirmed: (seq: number) => void confirmed.push(seq),
    failed: (error: unknown) => {
      throw error;
    },
    silent: () => {
      silences++;
    }
  };
  return new Confirmations(socket as unknown as WebSocket, CONFIRMATION_DEFAULTS, events, byPong);
}

beforeEach(() => {
  vi.useFakeTimers();
  socket = new FakeSocket();
  position = 0;
  confirmed = [];
  silences = 0;
});

afterEach(() => {
  vi.useRealTimers();
});

describe('[12] signs of life', () => {
  it('are requested every 30 s', () => {
    const watched = watch();
    vi.advanceTimersByTime(30_000);
    expect(socket.pings).toHaveLength(1);
    socket.answer();
    vi.advanceTimersByTime(30_000);
    expect(socket.pings).toHaveLength(2);
    watched.stop();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('missing for 90 s mean that the client is lost', () => {
    watch();
    vi.advanceTimersByTime(90_000);
    expect(silences).toBe(0);
    vi.advanceTimersByTime(30_000);
    expect(silences).toBe(1);
  });

  it('are not counted as missing after the gateway itself was asleep: it sends another ping first', () => {
    watch();
    vi.advanceTimersByTime(30_000);
    const later = performance.now() + 3_600_000;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => later);
    vi.advanceTimersByTime(30_000);
    expect(silences).toBe(0);
    clock.mockImplementation(() => later + 30_000);
    vi.advanceTimersByTime(30_000);
    expect(silences).toBe(1);
    clock.mockRestore();
  });

  it('are both pongs and messages', () => {
    watch();
    for (let minute = 0; minute < 5; minute++) {
      vi.advanceTimersByTime(60_000);
      socket.emit('message');
    }
    expect(silences).toBe(0);
  });
});

describe('[22] the confirmed position of a client', () => {
  it('is requested a moment after a record was sent, and confirmed by the pong', () => {
    const watched = watch();
    position = 7;
    watched.moved(100);
    vi.advanceTimersByTime(CONFIRMATION_DEFAULTS.delayMs);
    expect(socket.pings).toEqual(['7']);
    expect(confirmed).toEqual([]);
    socket.answer();
    expect(confirmed).toEqual([7]);
  });

  it('is requested repeatedly while more is sent, with a limited number of pings in flight', () => {
    const watched = watch();
    for (position = 1; position < 50; position++) {
      watched.moved(100);
      vi.advanceTimersByTime(CONFIRMATION_DEFAULTS.delayMs);
    }
    expect(socket.pings).toEqual(['1', '2', '3', '4', '5', '6', '7', '8']);
    socket.answer('1');
    vi.advanceTimersByTime(CONFIRMATION_DEFAULTS.delayMs);
    expect(socket.pings.slice(8)).toEqual(['50']);
    socket.answer();
    expect(confirmed).toEqual([1, 50]);
    vi.advanceTimersByTime(CONFIRMATION_DEFAULTS.delayMs);
    expect(socket.pings).toHaveLength(9);
  });

  it('is requested after many bytes in any case', () => {
    const watched = watch();
    position = 1;
    watched.moved(CONFIRMATION_DEFAULTS.bytes);
    position = 2;
    watched.moved(CONFIRMATION_DEFAULTS.bytes);
    expect(socket.pings).toEqual(['1', '2']);
    // One pong may answer both.
    socket.answer('2');
    position = 3;
    watched.moved(1);
    vi.advanceTimersByTime(CONFIRMATION_DEFAULTS.delayMs);
    expect(socket.pings).toEqual(['1', '2', '3']);
  });

  it.each(['9', '-1', 'x', '', '1e3', '99999999999999999'])('is not read from a pong with %j', payload => {
    const watched = watch();
    position = 8;
    watched.moved(1);
    vi.advanceTimersByTime(CONFIRMATION_DEFAULTS.delayMs);
    socket.answer(payload);
    expect(confirmed).toEqual([]);
  });

  it('never decreases', () => {
    const watched = watch();
    position = 8;
    watched.acknowledged(8);
    watched.acknowledged(3);
    expect(confirmed).toEqual([8]);
  });

  it('is only the position that the client itself acknowledges, if it does', () => {
    const watched = watch(false);
    position = 8;
    watched.moved(CONFIRMATION_DEFAULTS.bytes);
    vi.advanceTimersByTime(30_000);
    socket.answer();
    expect(confirmed).toEqual([]);
    watched.acknowledged(5);
    expect(confirmed).toEqual([5]);
  });

  it('is not requested after the end', () => {
    const watched = watch();
    position = 8;
    watched.moved(1);
    watched.stop();
    socket.answer('1');
    expect(vi.getTimerCount()).toBe(0);
    expect(socket.pings).toEqual([]);
  });
});
