/**
 * A WebSocket for many messages. The frames of one turn of the event loop are placed in one buffer and sent in one write: a
 * frame sent alone costs two small buffers and a system call. Large payloads are not copied.
 *
 * It writes below `ws`, which is safe between two frames of a server that neither masks nor compresses. Every other frame
 * (a ping, a note, the close frame) first flushes the gathered ones, so the order is the order of the calls.
 *
 * It also emits `closing` when its closing handshake begins. `close` comes only when the connection has ended, and a peer
 * that no longer reads can delay that for long.
 */
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';

export const CLOSING = 'closing';

/** RFC 6455, 5.2. */
const FINAL = 0x80;
export const Opcode = { text: 1, binary: 2 } as const;
const SHORT_LENGTH = 125;
const LENGTH_16 = 126;
const LENGTH_64 = 127;
const MAX_HEAD = 10;

/** About one turn of output of the fastest kernel. */
const SLAB_BYTES = 64 * 1024;
/** Above this size, copying costs more than a separate chunk in the write. */
const COPIED_BYTES = 16 * 1024;
const NOTHING = Buffer.alloc(0);

type SendArguments = Parameters<WebSocket['send']>;
type SendRest = [callback?: SendArguments[2]] | [options: SendArguments[1], callback?: SendArguments[2]];

export class GatheringWebSocket extends WebSocket {
  #stream: Duplex | null = null;
  #slab = NOTHING;
  /** `slab[from..to)` has to be written. */
  #from = 0;
  #to = 0;
  #isDue = false;

  /** The stream below the socket, once it is open. */
  writeTo(stream: Duplex): void {
    this.#stream = stream;
  }

  /** Bytes that are not sent yet, in the buffer and in the stream. */
  get unsentBytes(): number {
    return this.#to - this.#from + (this.#stream?.writableLength ?? 0);
  }

  /**
   * Sends `prefix` and `payload` in this turn, or drops them if the socket is not open. A large payload must not change
   * until it is sent.
   */
  gather(opcode: number, prefix: Buffer | null, payload: Buffer): void {
    const stream = this.#stream;
    if (stream === null || this.readyState !== WebSocket.OPEN) return;
    const prefixBytes = prefix === null ? 0 : prefix.length;
    const isCopied = payload.length <= COPIED_BYTES;
    this.#makeRoom(stream, MAX_HEAD + prefixBytes + (isCopied ? payload.length : 0));
    const slab = this.#slab;
    let to = writeHead(slab, this.#to, opcode, prefixBytes + payload.length);
    if (prefix !== null) {
      slab.set(prefix, to);
      to += prefixBytes;
    }
    if (isCopied) {
      slab.set(payload, to);
      this.#to = to + payload.length;
      if (!this.#isDue) {
        this.#isDue = true;
        process.nextTick(() => {
          this.#isDue = false;
          this.#flush();
        });
      }
      return;
    }
    this.#to = to;
    stream.cork();
    this.#flush();
    stream.write(payload);
    stream.uncork();
  }

  override send(data: SendArguments[0], ...rest: SendRest): void {
    this.#flush();
    super.send(data, ...(rest as []));
  }

  override ping(...args: Parameters<WebSocket['ping']>): void {
    this.#flush();
    super.ping(...args);
  }

  override pong(...args: Parameters<WebSocket['pong']>): void {
    this.#flush();
    super.pong(...args);
  }

  /** Also called for the peer's close frame, which it answers. */
  override close(code?: number, data?: string | Buffer): void {
    this.#flush();
    super.close(code, data);
    this.emit(CLOSING);
  }

  #makeRoom(stream: Duplex, bytes: number): void {
    if (this.#slab.length - this.#to >= bytes) return;
    this.#flush();
    // Space whose data the system has sent may be overwritten; otherwise the stream still needs it.
    if (stream.writableLength > 0 || this.#slab.length < bytes) {
      this.#slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, bytes));
    }
    this.#from = this.#to = 0;
  }

  #flush(): void {
    if (this.#from === this.#to) return;
    const gathered = this.#slab.subarray(this.#from, this.#to);
    this.#from = this.#to;
    if (this.#stream?.writable === true) this.#stream.write(gathered);
  }
}

/** Writes the header of a final, unmasked frame; returns the offset of the payload. */
function writeHead(target: Buffer, at: number, opcode: number, length: number): number {
  target[at] = FINAL | opcode;
  if (length <= SHORT_LENGTH) {
    target[at + 1] = length;
    return at + 2;
  }
  if (length < 0x1_0000) {
    target[at + 1] = LENGTH_16;
    target.writeUInt16BE(length, at + 2);
    return at + 4;
  }
  target[at + 1] = LENGTH_64;
  target.writeUInt32BE(Math.floor(length / 0x1_0000_0000), at + 2);
  target.writeUInt32BE(length >>> 0, at + 6);
  return at + MAX_HEAD;
}
