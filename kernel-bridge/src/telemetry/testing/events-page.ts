/** For specs: a page on the events socket. */
import { once } from 'node:events';
import type {
  BridgeEvent,
  ControlMessage,
  EventsFrame,
  RunMessage,
  TelemetryMessage
} from '@tpulab/protocol';
import { vi } from 'vitest';
import { WebSocket } from 'ws';
import { type TemporaryGateway, TOKEN } from '../../testing/temporary-gateway.js';

export class EventsPage implements Disposable {
  readonly frames: EventsFrame[] = [];
  readonly socket: WebSocket;

  constructor(from: TemporaryGateway, token = TOKEN) {
    this.socket = new WebSocket(`${from.url.replace('http', 'ws')}bridge/v1/events?token=${token}`);
    this.socket.on('message', data =>
      this.frames.push(JSON.parse((data as Buffer).toString()) as EventsFrame)
    );
  }

  async subscribe(request: unknown): Promise<void> {
    if (this.socket.readyState === WebSocket.CONNECTING) await once(this.socket, 'open');
    this.socket.send(typeof request === 'string' ? request : JSON.stringify(request));
  }

  /** Events of kernels. */
  get events(): BridgeEvent[] {
    return this.frames
      .flatMap(frame => (frame.op === 'events' ? frame.events : []))
      .filter((event): event is BridgeEvent => 'kernelId' in event);
  }

  telemetry(kernelId: string): TelemetryMessage[] {
    return this.events.flatMap(event => ('data' in event && event.kernelId === kernelId ? [event.data] : []));
  }

  /** The results of commands, in the order of the reports. */
  control(kernelId: string, id?: string): ControlMessage[] {
    return this.telemetry(kernelId).filter(
      (message): message is ControlMessage =>
        message.type === 'control' && (id === undefined || message.id === id)
    );
  }

  runs(kernelId: string): RunMessage[] {
    return this.telemetry(kernelId).filter((message): message is RunMessage => message.type === 'run');
  }

  until<T>(test: () => T): Promise<NonNullable<T>> {
    return vi.waitUntil(test, { timeout: 60_000, interval: 10 }) as Promise<NonNullable<T>>;
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}
