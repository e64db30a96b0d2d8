/** One WebSocket to `/bridge/v1/events` of one gateway, kept open: it resumes, backs off and detects a dead link. */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type { EventTopic, SubscribeRequest } from '@tpulab/protocol';
import { backoffMs } from '../platform/backoff.js';
import { FrameError, type ParsedFrame, parseFrame } from './parse-frame.js';

const TOPICS: EventTopic[] = ['devices', 'steps', 'runs', 'compile', 'kernels', 'clients', 'remotes'];

/** From opening the socket to the gateway's `subscribed`. */
export const CONNECT_TIMEOUT_MS = 10_000;
/** A quiet link is probed after this time: a page sees no WebSocket pings. */
export const PROBE_AFTER_MS = 30_000;

/**
 * Why the stream has no connection. `cut`: it was closed or refused without a reason. `timeout`: no answer.
 * `silent`: no message for too long. `unreadable`: not our protocol. `refused`: the gateway gave a reason, in `detail`.
 * `address`: invalid for a WebSocket.
 */
export interface StreamFailure {
  readonly code: 'cut' | 'timeout' | 'silent' | 'unreadable' | 'refused' | 'address';
  /** The gateway's message; may be empty. */
  readonly detail: string;
}

export type StreamState =
  | { readonly kind: 'connecting'; readonly attempt: number }
  | { readonly kind: 'live'; readonly gatewayId: string }
  | {
      readonly kind: 'waiting';
      readonly attempt: number;
      /** Unix milliseconds of the next attempt. */
      readonly retryAt: number;
      readonly failure: StreamFailure;
    }
  | { readonly kind: 'closed' };

/** The part of a WebSocket that the stream needs. */
export type StreamSocket = Pick<WebSocket, 'onopen' | 'onmessage' | 'onclose' | 'send' | 'close'>;

interface EventStreamOptions {
  /** Opens a socket with the present address and token. */
  readonly open: () => StreamSocket;
  /** Kernel id to the last telemetry that the page has. */
  readonly since: () => Record<string, number>;
  readonly onFrame: (frame: ParsedFrame) => void;
  readonly now?: () => number;
  readonly random?: () => number;
}

/** States: connecting → live → waiting → connecting …; `closed` is final. Starts immediately. */
export class EventStream implements IDisposable {
  constructor(options: EventStreamOptions) {
    this._options = options;
    this._now = options.now ?? Date.now;
    this._random = options.random ?? Math.random;
    this._connect(1);
  }

  get state(): StreamState {
    return this._state;
  }

  /** Emitted after each change of state. */
  get stateChanged(): ISignal<this, StreamState> {
    return this._stateChanged;
  }

  get isDisposed(): boolean {
    return this._state.kind === 'closed';
  }

  /** The page is hidden: the gateway may sample its machine as rarely as without a page. */
  set isHidden(value: boolean) {
    if (value === this._isHidden) {
      return;
    }
    this._isHidden = value;
    if (this._state.kind === 'live' && this._socket) {
      this._subscribe(this._socket);
    }
  }

  /** Ends a wait. Does nothing while connecting or live. */
  reconnectNow(): void {
    if (this._state.kind === 'waiting') {
      this._connect(this._state.attempt + 1);
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._drop();
    this._setState({ kind: 'closed' });
    Signal.clearData(this);
  }

  private _connect(attempt: number): void {
    this._drop();
    this._setState({ kind: 'connecting', attempt });
    let socket: StreamSocket;
    try {
      socket = this._options.open();
    } catch {
      // The address is invalid for a WebSocket; the error could contain the token, so its text is not shown.
      this._wait(attempt, { code: 'address', detail: '' });
      return;
    }
    this._socket = socket;
    this._timer = setTimeout(() => this._wait(attempt, { code: 'timeout', detail: '' }), CONNECT_TIMEOUT_MS);
    socket.onopen = () => this._subscribe(socket);
    socket.onmessage = event => this._receive(event.data, attempt);
    socket.onclose = event => this._wait(this._attempts(attempt), { code: 'cut', detail: event.reason });
  }

  private _subscribe(socket: StreamSocket): void {
    const request: SubscribeRequest = {
      op: 'subscribe',
      topics: TOPICS,
      since: this._options.since(),
      ...(this._isHidden ? { background: true } : {})
    };
    socket.send(JSON.stringify(request));
  }

  private _receive(data: unknown, attempt: number): void {
    let frame: ParsedFrame;
    try {
      if (typeof data !== 'string') {
        throw new FrameError('not text');
      }
      frame = parseFrame(data);
    } catch (error) {
      this._wait(this._attempts(attempt), {
        code: 'unreadable',
        detail: error instanceof Error ? error.message : ''
      });
      return;
    }
    if (frame.op === 'error') {
      this._wait(this._attempts(attempt), { code: 'refused', detail: frame.message || frame.code });
      return;
    }
    if (frame.op === 'subscribed' && this._state.kind !== 'live') {
      this._setState({ kind: 'live', gatewayId: frame.gatewayId });
    }
    if (this._state.kind === 'live') {
      this._watchSilence();
      this._options.onFrame(frame);
    }
  }

  /** A link that has delivered a message restarts the count of attempts. */
  private _attempts(attempt: number): number {
    return this._state.kind === 'live' ? 1 : attempt;
  }

  /** After a silence, subscribes again, which the gateway answers; without an answer the link is dead. */
  private _watchSilence(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this._timer = setTimeout(() => this._wait(1, { code: 'silent', detail: '' }), CONNECT_TIMEOUT_MS);
      if (this._socket) {
        this._subscribe(this._socket);
      }
    }, PROBE_AFTER_MS);
  }

  private _wait(attempt: number, failure: StreamFailure): void {
    this._drop();
    const waitMs = backoffMs(attempt, this._random());
    this._timer = setTimeout(() => this._connect(attempt + 1), waitMs);
    this._setState({ kind: 'waiting', attempt, retryAt: this._now() + waitMs, failure });
  }

  /** Ends socket and timer silently. */
  private _drop(): void {
    clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = null;
      socket.onmessage = null;
      socket.onclose = null;
      socket.close();
    }
  }

  private _setState(state: StreamState): void {
    this._state = state;
    this._stateChanged.emit(state);
  }

  private readonly _options: EventStreamOptions;
  private readonly _now: () => number;
  private readonly _random: () => number;
  private readonly _stateChanged = new Signal<this, StreamState>(this);
  private _isHidden = false;
  private _state: StreamState = { kind: 'connecting', attempt: 1 };
  private _socket: StreamSocket | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
