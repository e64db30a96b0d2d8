/** A WebSocket class for kernel connections that leaves out what an earlier socket of the same client has brought. */
import { ReceivedMessages } from './received-messages.js';

/** Kernels times clients of a page; the one that was opened longest ago is forgotten first. */
const MAX_CLIENTS = 256;

export function withoutRepetitions(Base: typeof WebSocket): typeof WebSocket {
  const clients = new Map<string, ReceivedMessages>();

  function receivedBy(url: string | URL): ReceivedMessages {
    const { pathname, searchParams } = new URL(url);
    const key = `${pathname} ${searchParams.get('session_id') ?? ''}`;
    const received = clients.get(key) ?? new ReceivedMessages();
    clients.delete(key);
    clients.set(key, received);
    for (const oldest of [...clients.keys()].slice(0, -MAX_CLIENTS)) {
      clients.delete(oldest);
    }
    return received;
  }

  return class extends Base {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols);
      const received = receivedBy(url);
      received.newSocket();
      // Registered before anybody else can listen, so it is called first.
      this.addEventListener('message', event => {
        if (received.isRepeated(event.data)) {
          event.stopImmediatePropagation();
        }
      });
    }
  };
}
