/**
 * Passes a WebSocket on to the gateway of a remote. After the handshake, which the two ends make with each other, bytes are
 * passed as they come; what is said in them is not looked at. Each side is read only as fast as the other one takes it.
 */
import type { IncomingMessage } from 'node:http';
import { connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { RemoteUnavailableError } from '../../kernels/errors.js';
import type { ReachableRemote } from '../remote.js';
import { closeFrame, FrameBoundary } from './frame-boundary.js';
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
  readonly fail: (error: RemoteUnavailableError) => void;
  readonly refused: () => void;
}

/** A WebSocket on its way through. */
export class PipedSocket {
  readonly closed: Promise<void>;
  readonly #forward: ForwardUpgrade;
  readonly #far: Socket;
  readonly #boundary = new FrameBoundary();
  #state: 'handshake' | 'open' | 'over' = 'handshake';
  #isWebSocket = false;
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
    if (forward.head.length > 0) this.#far.write(forward.head);
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
    if (!this.#isWebSocket || this.#boundary.hasClosed) client.end();
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
    const headers = headersForRemote(request.rawHeaders, remote.token);
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
    const { client, refused } = this.#forward;
    clearTimeout(this.#timer);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(read.toString('latin1', 0, 16))?.[1]);
    if (status === 401 || status === 403) {
      refused();
      this.#unanswered('its gateway does not know us any more and is asked anew');
      return;
    }
    this.#state = 'open';
    client.write(read);
    this.#isWebSocket = status === 101;
    if (this.#isWebSocket) {
      this.#boundary.take(read.subarray(headEnd));
      this.#far.on('data', (chunk: Buffer) => this.#boundary.take(chunk));
    }
    client.once('end', () => this.#limit());
    // How the client is told of the end is decided there.
    this.#far.pipe(client, { end: false });
    client.pipe(this.#far);
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
