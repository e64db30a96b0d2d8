/**
 * A WebSocket that emits `closing` when its closing handshake begins. `close` comes only when the connection has ended,
 * and a peer that reads no more can put that off for long after it has said goodbye.
 */
import { WebSocket } from 'ws';

export const CLOSING = 'closing';

export class TellingWebSocket extends WebSocket {
  /** Called for the close frame of the peer, too: it is answered by this. */
  override close(code?: number, data?: string | Buffer): void {
    super.close(code, data);
    this.emit(CLOSING);
  }
}
