import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket as NodeWebSocket, WebSocketServer } from 'ws';
import type { IBridgeBackends } from '../backends/tokens.js';
import type { BackendState, IBackend, IBackendError } from '../tokens.js';
import { BridgeEvents } from './bridge-events.js';
import { hello, kernelState, run, steps, telemetry } from './samples.spec-data.js';

const WAIT = { timeout: 30_000, interval: 5 };

class Backend implements IBackend {
  constructor(readonly id: string) {}
  readonly label = 'TPULab bridge';
  readonly changed = new Signal<this, void>(this);
  readonly lastError: IBackendError | null = null;
  readonly nextRetryAt = null;
  state: BackendState = 'ok';
  serverSettings: ServerConnection.ISettings | null = null;
  retries = 0;

  reconnectNow(): void {
    this.retries += 1;
  }
}

class Backends implements Pick<IBridgeBackends, 'backends' | 'changed'> {
  readonly bridge = new Backend('bridge');
  readonly backends = [new Backend('jupyter'), this.bridge];
  readonly changed = new Signal<this, IBackend>(this);
}

describe('BridgeEvents', () => {
  let server: WebSocketServer;
  let backends: Backends;
  let events: BridgeEvents;
  let requested: { url: string; since: unknown }[];

  const send = (...list: object[]): void => {
    server.clients.forEach(client => client.send(JSON.stringify({ op: 'events', events: list })));
  };
  const reach = (token = 'T&1'): void => {
    const { port } = server.address() as { port: number };
    const settings = { wsUrl: `ws://127.0.0.1:${port}/base/`, token, WebSocket: NodeWebSocket };
    backends.bridge.serverSettings = settings as unknown as ServerConnection.ISettings;
    backends.changed.emit(backends.bridge);
  };
  const live = (): Promise<void> =>
    vi.waitFor(() => expect(events.streamOf('bridge')?.kind).toBe('live'), WAIT);

  beforeEach(async () => {
    requested = [];
    server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    server.on('connection', (socket, request) =>
      socket.on('message', data => {
        const { since } = JSON.parse((data as Buffer).toString()) as { since: unknown };
        requested.push({ url: request.url ?? '', since });
        socket.send(JSON.stringify({ op: 'subscribed', topics: [], gatewayId: 'g', historyFrom: {} }));
      })
    );
    await new Promise(resolve => server.once('listening', resolve));
    backends = new Backends();
    events = new BridgeEvents(backends);
  });

  afterEach(async () => {
    events.dispose();
    server.clients.forEach(client => client.terminate());
    await new Promise(resolve => server.close(resolve));
  });

  it('opens no stream before the address is known, nor to the server of the page', async () => {
    expect(events.streamOf('bridge')).toBeNull();
    reach();
    await live();
    expect(events.streamOf('jupyter')).toBeNull();
    expect(requested).toEqual([{ url: '/base/bridge/v1/events?token=T%261', since: {} }]);
  });

  it('sorts events by kernel and resumes each at its position', async () => {
    reach();
    await live();
    send(
      kernelState('a', 'busy'),
      telemetry('a', 7, hello()),
      telemetry('b', 3, run()),
      telemetry('b', 4, steps(0, 2))
    );
    await vi.waitFor(() => expect(events.telemetryOf('b').lastSeq).toBe(4), WAIT);
    expect(events.telemetryOf('a').state?.executionState).toBe('busy');
    expect(events.telemetryOf('b').runs.current?.steps.length).toBe(2);
    server.clients.forEach(client => client.terminate());
    await vi.waitFor(() => expect(events.streamOf('bridge')?.kind).toBe('waiting'), WAIT);
    events.reconnectNow();
    await live();
    expect(requested.at(-1)?.since).toEqual({ a: 7, b: 4 });
    expect(backends.bridge.retries).toBe(1);
  });

  it("drops the gateway's data about attached clients when the link is lost", async () => {
    reach();
    await live();
    send({ topic: 'clients', kernelId: 'a', sessionId: 's', state: 'replaying', pending: 9 });
    await vi.waitFor(() => expect(events.telemetryOf('a').client('s')?.pending).toBe(9), WAIT);
    server.clients.forEach(client => client.terminate());
    await vi.waitFor(() => expect(events.telemetryOf('a').client('s')).toBeNull(), WAIT);
  });

  it('uses a new token immediately', async () => {
    reach();
    await live();
    reach('new');
    await vi.waitFor(() => expect(requested.at(-1)?.url).toContain('token=new'), WAIT);
    await vi.waitFor(() => expect(server.clients.size).toBe(1), WAIT);
  });

  it('wakes a backend that is down as soon as the stream is back', async () => {
    backends.bridge.state = 'down';
    reach();
    await live();
    expect(backends.bridge.retries).toBe(1);
  });

  it('closes its sockets when it is disposed', async () => {
    reach();
    await live();
    events.dispose();
    await vi.waitFor(() => expect(server.clients.size).toBe(0), WAIT);
    expect(events.streamOf('bridge')).toBeNull();
  });
});
