import type { SubscribeRequest } from '@tpulab/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket as NodeWebSocket, type WebSocket as Socket, WebSocketServer } from 'ws';
import { CONNECT_TIMEOUT_MS, EventStream, PROBE_AFTER_MS, type StreamSocket } from './event-stream.js';
import type { ParsedFrame } from './parse-frame.js';
import { kernelState } from './samples.spec-data.js';

const SUBSCRIBED = JSON.stringify({ op: 'subscribed', topics: [], gatewayId: 'g1', historyFrom: {} });
const WAIT = { timeout: 30_000, interval: 5 };

/** A gateway with real sockets that answers each subscription and records the requests. */
class Gateway {
  readonly server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  readonly sockets: Socket[] = [];
  readonly requests: SubscribeRequest[] = [];
  answer: string | null = SUBSCRIBED;

  constructor() {
    this.server.on('connection', socket => {
      this.sockets.push(socket);
      socket.on('message', data => {
        this.requests.push(JSON.parse((data as Buffer).toString()) as SubscribeRequest);
        if (this.answer !== null) {
          socket.send(this.answer);
        }
      });
    });
  }

  get url(): string {
    const address = this.server.address();
    return typeof address === 'object' && address ? `ws://127.0.0.1:${address.port}/` : '';
  }

  /** Like a broken link: no closing handshake. */
  cut(): void {
    this.sockets.forEach(socket => socket.terminate());
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise(resolve => this.server.close(resolve));
  }
}

describe('EventStream', () => {
  let gateway: Gateway;
  let stream: EventStream;
  let frames: ParsedFrame[];
  let since: Record<string, number>;

  const start = (): EventStream =>
    new EventStream({
      open: () => new NodeWebSocket(gateway.url) as unknown as StreamSocket,
      since: () => since,
      onFrame: frame => frames.push(frame),
      random: () => 1
    });

  beforeEach(async () => {
    gateway = new Gateway();
    await new Promise(resolve => gateway.server.once('listening', resolve));
    frames = [];
    since = {};
  });

  afterEach(async () => {
    stream.dispose();
    vi.useRealTimers();
    await gateway.close();
  });

  it('subscribes to all topics and passes on all events', async () => {
    stream = start();
    await vi.waitFor(() => expect(stream.state).toEqual({ kind: 'live', gatewayId: 'g1' }), WAIT);
    expect(gateway.requests[0]?.topics).toEqual([
      'devices',
      'steps',
      'runs',
      'compile',
      'kernels',
      'clients',
      'remotes'
    ]);
    gateway.sockets[0]?.send(JSON.stringify({ op: 'events', events: [kernelState('k', 'busy')] }));
    await vi.waitFor(() => expect(frames).toHaveLength(2), WAIT);
    expect(frames[1]).toMatchObject({ op: 'events', skipped: 0 });
  });

  it('reports when the page is hidden and when it is visible again, even after a disconnect', async () => {
    stream = start();
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    stream.isHidden = true;
    stream.isHidden = true;
    await vi.waitFor(() => expect(gateway.requests).toHaveLength(2), WAIT);
    gateway.cut();
    await vi.waitFor(() => expect(stream.state.kind).toBe('waiting'), WAIT);
    stream.reconnectNow();
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    stream.isHidden = false;
    await vi.waitFor(() => expect(gateway.requests).toHaveLength(4), WAIT);
    expect(gateway.requests.map(({ background }) => background)).toEqual([undefined, true, true, undefined]);
  });

  it('returns after a cut and requests only missing events', async () => {
    stream = start();
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    since = { k: 41 };
    gateway.cut();
    await vi.waitFor(() => expect(stream.state.kind).toBe('waiting'), WAIT);
    stream.reconnectNow();
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    expect(gateway.requests.map(request => request.since)).toEqual([{}, { k: 41 }]);
  });

  it('returns automatically at the announced time', async () => {
    stream = start();
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    gateway.cut();
    await vi.waitFor(() => expect(stream.state).toMatchObject({ kind: 'waiting', attempt: 1 }), WAIT);
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    expect(gateway.requests).toHaveLength(2);
  });

  it("reports the gateway's message when it is refused", async () => {
    gateway.answer = JSON.stringify({ op: 'error', code: 'events.bad_request', message: 'Too many topics.' });
    stream = start();
    await vi.waitFor(
      () =>
        expect(stream.state).toMatchObject({
          kind: 'waiting',
          failure: { code: 'refused', detail: 'Too many topics.' }
        }),
      WAIT
    );
  });

  it('leaves a gateway that does not use the protocol, and reports it', async () => {
    gateway.answer = '<html>';
    stream = start();
    await vi.waitFor(() => expect(stream.state.kind).toBe('waiting'), WAIT);
    expect(stream.state).toMatchObject({ failure: { code: 'unreadable' } });
  });

  it('never shows the token of an address that cannot be opened', () => {
    stream = new EventStream({
      open: () => {
        throw new SyntaxError('bad url ws://x/?token=SECRET');
      },
      since: () => ({}),
      onFrame: () => undefined
    });
    expect(stream.state.kind).toBe('waiting');
    expect(JSON.stringify(stream.state)).not.toContain('SECRET');
  });

  it('closes its socket and holds no timer when it is disposed', async () => {
    stream = start();
    await vi.waitFor(() => expect(stream.state.kind).toBe('live'), WAIT);
    const closed = new Promise(resolve => gateway.sockets[0]?.once('close', resolve));
    stream.dispose();
    stream.dispose();
    await closed;
    expect(stream.state.kind).toBe('closed');
    expect(stream.isDisposed).toBe(true);
  });
});

describe('EventStream in a bad network', () => {
  let socket: StreamSocket & { sent: string[]; closed: boolean };
  let stream: EventStream;
  let opened: number;

  beforeEach(() => {
    vi.useFakeTimers();
    opened = 0;
    stream = new EventStream({
      open: () => (socket = silentSocket()),
      since: () => ({}),
      onFrame: () => undefined,
      random: () => 1
    });
  });

  afterEach(() => {
    stream.dispose();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  function silentSocket(): typeof socket {
    opened += 1;
    return {
      sent: [],
      closed: false,
      onopen: null,
      onmessage: null,
      onclose: null,
      send(text) {
        this.sent.push(text as string);
      },
      close() {
        this.closed = true;
      }
    };
  }

  const receive = (data: string): void => {
    const { onmessage } = socket as unknown as { onmessage: (event: { data: string }) => void };
    onmessage({ data });
  };

  it('waits longer after each failure, reports the next attempt, and starts over after a success', () => {
    const fail = (): number => {
      (socket as unknown as { onclose: (event: object) => void }).onclose({ code: 1006, reason: '' });
      return stream.state.kind === 'waiting' ? stream.state.retryAt - Date.now() : -1;
    };
    const waits: number[] = [];
    for (let failure = 0; failure < 6; failure += 1) {
      waits.push(fail());
      vi.advanceTimersByTime(waits.at(-1) ?? 0);
      expect(stream.state.kind).toBe('connecting');
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000]);
    receive(SUBSCRIBED);
    expect(fail()).toBe(1_000);
    expect(stream.state).toMatchObject({ attempt: 1, failure: { code: 'cut' } });
  });

  it('gives up an attempt that gets no answer', () => {
    const first = socket;
    vi.advanceTimersByTime(CONNECT_TIMEOUT_MS);
    expect(stream.state).toMatchObject({ kind: 'waiting', failure: { code: 'timeout' } });
    expect(first.closed).toBe(true);
    vi.advanceTimersByTime(1_000);
    expect(opened).toBe(2);
  });

  it('probes a quiet link and stays if it answers', () => {
    receive(SUBSCRIBED);
    vi.advanceTimersByTime(PROBE_AFTER_MS);
    expect(socket.sent).toHaveLength(1);
    receive(SUBSCRIBED);
    vi.advanceTimersByTime(CONNECT_TIMEOUT_MS * 2);
    expect(stream.state.kind).toBe('live');
    expect(opened).toBe(1);
  });

  it('leaves a link that has died silently', () => {
    receive(SUBSCRIBED);
    vi.advanceTimersByTime(PROBE_AFTER_MS + CONNECT_TIMEOUT_MS);
    expect(stream.state).toMatchObject({ kind: 'waiting', failure: { code: 'silent' } });
  });
});
