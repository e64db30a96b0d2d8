/**
 * Passes a WebSocket on to the gateway of a remote. After the handshake, which the two ends make with each other, bytes are
 * passed as they come, and none of them is changed. Each side is read only as fast as the other one takes it.
 */
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type BridgeError, RemoteUnavailableError } from '../../http/errors.js';
import type { ReachableRemote } from '../contracts.js';
import { eachHeader, headersForRemote, withoutToken } from './headers.js';

/** As clients come back after it (docs/conformance.md); after 1000 and 1001 JupyterLab does not. */
const AWAY = { code: 1012, reason: 'the remote machine cannot be reached now' };
/** Of the remote's answer to the handshake. */
const HEAD_BYTES = 64 * 1024;
const HANDSHAKE_MS = 30_000;
/** For the other half of a connection of which one half was closed. */
const HALF_CLOSED_MS = 30_000;

export interface ForwardUpgrade {
  readonly request: IncomingMessage;
  readonly client: Duplex;
  /** What the client has sent behind its handshake. */
  readonly head: Buffer;
  readonly remote: ReachableRemote;
  readonly target: string;
  /** Answers the handshake in our own name. */
  readonly fail: (error: BridgeError) => void;
  readonly refused: () => void;
  /** Is shown what the client sends, while it is passed on. */
  readonly read?: (chunk: Buffer) => void;
}

/** Of the answer to a handshake. Others, such as cookies, would be for the browser, and for all servers on this machine. */
const PASSED = new Set(['upgrade', 'connection', 'sec-websocket-accept', 'sec-websocket-protocol']);

function answerHead(head: string): string {
  const [status = '', ...lines] = head.split('\r\n');
  const passed = lines.filter(line => PASSED.has(line.slice(0, line.indexOf(':')).trim().toLowerCase()));
  return [status, ...passed, '', ''].join('\r\n');
}

/** What is compressed could not be read along, and no gateway of ours compresses. */
function withoutExtensions(raw: readonly string[]): string[] {
  const kept: string[] = [];
  eachHeader(raw, (name, value) => {
    if (name.toLowerCase() !== 'sec-websocket-extensions') kept.push(name, value);
  });
  return kept;
}

/** A WebSocket on its way through. */
export class PipedSocket {
  readonly closed: Promise<void>;
  readonly #forward: ForwardUpgrade;
  readonly #far: Socket;
  readonly #boundary = new FrameBoundary();
  #state: 'handshake' | 'open' | 'over' = 'handshake';
  #timer: NodeJS.Timeout;

  constructor(forward: ForwardUpgrade) {
    const { client, remote } = forward;
    this.#forward = forward;
    if (client instanceof Socket) client.setNoDelay(true).setTimeout(0);
    this.#far = connect({ path: remote.socketPath, allowHalfOpen: true });
    this.#timer = setTimeout(() => this.#unanswered('it did not answer in time'), HANDSHAKE_MS);
    this.closed = new Promise(resolve => client.once('close', () => resolve()));
    client.on('error', () => client.destroy());
    client.once('close', () => this.#end());
    this.#far.once('error', error => this.#unanswered(`its gateway did not answer (${error.message})`));
    this.#far.once('end', () => this.#farClosed());
    this.#far.once('close', () => this.#farClosed());
    this.#far.write(this.#handshake(), 'latin1');
    if (forward.head.length > 0) {
      this.#far.write(forward.head);
      forward.read?.(forward.head);
    }
    this.#readAnswer();
  }

  /** Says goodbye to the client where a frame can be put, and ends both sides. */
  close(code = AWAY.code, reason = AWAY.reason): void {
    if (this.#state === 'over') return;
    const { client } = this.#forward;
    if (this.#state === 'handshake') {
      this.#unanswered(reason);
      return;
    }
    this.#far.unpipe(client);
    if (client.destroyed || client.writableEnded) return void this.#far.destroy();
    if (this.#boundary.hasClosed) client.end();
    else if (this.#boundary.isBetweenFrames) client.end(closeFrame(code, reason));
    else client.destroy();
    this.#far.destroy();
    this.#limit();
  }

  terminate(): void {
    this.#forward.client.destroy();
    this.#end();
  }

  #handshake(): string {
    const { request, remote, target } = this.#forward;
    const headers = headersForRemote(withoutExtensions(request.rawHeaders), remote.token);
    const lines = [`${request.method ?? 'GET'} ${withoutToken(target)} HTTP/1.1`];
    eachHeader(headers, (name, value) => lines.push(`${name}: ${value}`));
    return [...lines, 'Connection: Upgrade', 'Upgrade: websocket', '', ''].join('\r\n');
  }

  /** Until its head is whole, nothing goes to the client: it may be a refusal that is not meant for it. */
  #readAnswer(): void {
    let read = Buffer.alloc(0);
    const take = (chunk: Buffer): void => {
      read = Buffer.concat([read, chunk]);
      const end = read.indexOf('\r\n\r\n');
      if (end < 0) {
        if (read.length > HEAD_BYTES) this.#unanswered('its answer is no answer to a handshake');
        return;
      }
      this.#far.off('data', take);
      this.#far.pause();
      this.#answered(read, end + 4);
    };
    this.#far.on('data', take);
  }

  #answered(read: Buffer, headEnd: number): void {
    const { client, refused, read: readAlong } = this.#forward;
    clearTimeout(this.#timer);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(read.toString('latin1', 0, 16))?.[1]);
    if (status === 401 || status === 403) {
      refused();
      this.#unanswered('its gateway no longer accepts our token; requesting a new one');
      return;
    }
    if (status !== 101) {
      this.#notOpened(status);
      return;
    }
    this.#state = 'open';
    client.write(answerHead(read.toString('latin1', 0, headEnd)), 'latin1');
    client.write(read.subarray(headEnd));
    this.#boundary.take(read.subarray(headEnd));
    this.#far.on('data', (chunk: Buffer) => this.#boundary.take(chunk));
    if (readAlong) client.on('data', readAlong);
    client.once('end', () => this.#limit());
    // How the client is told of the end is decided there.
    this.#far.pipe(client, { end: false });
    client.pipe(this.#far);
  }

  /** A refusal in our words: what the other side says with it would not be read as a WebSocket, but by a browser. */
  #notOpened(status: number): void {
    if (!(status >= 400 && status <= 599)) {
      this.#unanswered('its answer is no answer to a handshake');
      return;
    }
    this.#state = 'over';
    this.#far.destroy();
    const reason = STATUS_CODES[status] ?? '';
    this.#forward.client.end(
      `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
    );
    this.#limit();
  }

  #unanswered(why: string): void {
    if (this.#state !== 'handshake') {
      this.#farClosed();
      return;
    }
    this.#state = 'over';
    clearTimeout(this.#timer);
    this.#far.destroy();
    this.#forward.fail(new RemoteUnavailableError(this.#forward.remote.name, why));
  }

  /** In the middle of a conversation: ssh has ended, or the gateway there. */
  #farClosed(): void {
    if (this.#state === 'handshake') this.#unanswered('its gateway closed the connection');
    else this.close();
  }

  #limit(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.terminate(), HALF_CLOSED_MS).unref();
  }

  #end(): void {
    this.#state = 'over';
    clearTimeout(this.#timer);
    this.#far.destroy();
  }
}

const CLOSE_OPCODE = 0x8;

/** Follows the frames of one direction of a WebSocket (RFC 6455, 5.2), to know when another frame may be put between two. */
export class FrameBoundary {
  /** Header bytes of the frame that has begun. */
  #header: number[] = [];
  #payloadLeft = 0;
  #hasClosed = false;

  /** Whether a close frame has begun: after it there is nothing more to say. */
  get hasClosed(): boolean {
    return this.#hasClosed;
  }

  /** Whether all bytes so far are whole frames. */
  get isBetweenFrames(): boolean {
    return this.#payloadLeft === 0 && this.#header.length === 0;
  }

  take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, chunk.length - at);
        this.#payloadLeft -= taken;
        at += taken;
        continue;
      }
      this.#header.push(chunk[at++] ?? 0);
      const length = headerLength(this.#header);
      if (length === null || this.#header.length < length) continue;
      this.#payloadLeft = payloadLength(this.#header);
      this.#hasClosed ||= ((this.#header[0] ?? 0) & 0x0f) === CLOSE_OPCODE;
      this.#header = [];
    }
  }
}

/** Of the header as a whole; null while that cannot be known. */
function headerLength(header: readonly number[]): number | null {
  const second = header[1];
  if (second === undefined) return null;
  const short = second & 0x7f;
  return 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + (second & 0x80 ? 4 : 0);
}

function payloadLength(header: readonly number[]): number {
  const short = (header[1] ?? 0) & 0x7f;
  const bytes = short === 126 ? 2 : short === 127 ? 8 : 0;
  if (bytes === 0) return short;
  return header.slice(2, 2 + bytes).reduce((length, byte) => length * 256 + byte, 0);
}

/** A close frame of a server, which is not masked. */
export function closeFrame(code: number, reason: string): Buffer {
  const words = Buffer.from(reason, 'utf8').subarray(0, 123);
  return Buffer.concat([Buffer.from([0x88, 2 + words.length, code >> 8, code & 0xff]), words]);
}
