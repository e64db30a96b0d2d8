import { EventEmitter } from 'node:events';
import type { WebSocket } from 'ws';
import { expect, it } from 'vitest';
import type { EventSource } from './event-source.js';
import { EventSubscriber } from './event-subscriber.js';

class Socket extends EventEmitter {
  readonly OPEN = 1;
  readonly readyState = 1;
  readonly bufferedAmount = 0;
  readonly sent: string[] = [];

  send(text: string): void {
    this.sent.push(text);
  }

  subscribe(request: object): void {
    this.emit('message', Buffer.from(JSON.stringify({ op: 'subscribe', topics: ['devices'], ...request })));
  }
}

it('makes the sampler sample often only while its page is visible', () => {
  let lookers = 0;
  const source = {
    listen: () => ({ [Symbol.dispose]: () => undefined }),
    historyFrom: () => ({}),
    past: () => [],
    watch: () => {
      lookers += 1;
      return { [Symbol.dispose]: () => (lookers -= 1) };
    }
  };
  const socket = new Socket();
  new EventSubscriber(socket as unknown as WebSocket, source as unknown as EventSource, 'g');
  const counts = [{}, { background: true }, {}, { background: false }].map(request => {
    socket.subscribe(request);
    return lookers;
  });
  expect(counts).toEqual([1, 0, 1, 1]);
  expect(socket.sent.map(text => (JSON.parse(text) as { op: string }).op)).toEqual(
    counts.map(() => 'subscribed')
  );
  socket.emit('close');
  expect(lookers).toBe(0);
});
