/** The page's data about one kernel on a bridge: devices, runs, compilations, state, clients. */
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type {
  AdviceMessage,
  ClientEvent,
  DevicesMessage,
  HelloMessage,
  KernelEvent,
  ControlMessage,
  MemoryErrorMessage,
  MemoryMessage,
  ProfileMessage,
  TelemetryEvent,
  TelemetryMessage
} from '@tpulab/protocol';
import { CompilationLog } from './compilation-log.js';
import { RunHistory } from './run-history.js';
import { ThrottledSignal } from '../platform/throttled-signal.js';

/** Minimum interval between two emissions of `changed`, milliseconds: the rate at which the agent sends. */
export const CHANGED_INTERVAL_MS = 100;
/** Maximum number of advice entries, and of memory errors. */
const MAX_NOTES = 20;

export class KernelTelemetry implements IDisposable {
  constructor(readonly kernelId: string) {
    this._changed = new ThrottledSignal<this>(this, CHANGED_INTERVAL_MS);
  }

  readonly runs = new RunHistory();
  readonly compilations = new CompilationLog();

  /** An external caller has added data. */
  noteChange(): void {
    this._changed.fire();
  }

  get changed(): ISignal<this, void> {
    return this._changed.signal;
  }

  get isDisposed(): boolean {
    return this._changed.isDisposed;
  }

  /** The agent's greeting; null until it has connected, or while a new kernel process starts. */
  get agent(): HelloMessage | null {
    return this._agent;
  }

  get devices(): DevicesMessage | null {
    return this._devices;
  }

  /** Costs and coming errors that the agent has detected; oldest first. */
  get advice(): readonly AdviceMessage[] {
    return [...this._advice.values()];
  }

  /** When the device ran out of memory; oldest first. */
  get memoryErrors(): readonly MemoryErrorMessage[] {
    return [...this._memoryErrors.values()];
  }

  /** The holders of memory at the last request; null before that. */
  get memory(): MemoryMessage | null {
    return this._memory;
  }

  /** The newest requested trace; null before that. */
  get profile(): ProfileMessage | null {
    return this._profile;
  }

  /** Requests to the kernel itself, each with its latest status. */
  get requests(): readonly ControlMessage[] {
    return [...this._requested.values()];
  }

  /** The kernel as the gateway last reported it; null before that. */
  get state(): KernelEvent | null {
    return this._state;
  }

  get isDead(): boolean {
    return this._state !== null && (this._state.removed || this._state.executionState === 'dead');
  }

  /** Number of the newest telemetry, from which the stream resumes; 0 before the first. */
  get lastSeq(): number {
    return this._lastSeq;
  }

  /** Number of telemetry messages that the bridge no longer stored when this page requested them. */
  get missed(): number {
    return this._missed;
  }

  /** How far the kernel's clock is known to be ahead of this page's; a lag cannot be detected. */
  get clockAheadMs(): number {
    return this._clockAheadMs;
  }

  /** Replay state of one channels socket, by its `session_id`. */
  client(sessionId: string): ClientEvent | null {
    return this._clients.get(sessionId) ?? null;
  }

  /** Messages seen earlier (a replay that overlaps) are skipped. @param now Unix milliseconds of this page */
  applyTelemetry(event: TelemetryEvent, now: number): void {
    const { seq, data } = event;
    if (seq <= this._lastSeq) {
      const renumbered = data.type === 'hello' && data.time > this._lastHelloAt;
      if (!renumbered) {
        return;
      }
    } else if (this._lastSeq > 0) {
      this._missed += seq - this._lastSeq - 1;
    }
    this._lastSeq = seq;
    this._clockAheadMs = Math.max(this._clockAheadMs, data.time - now);
    this._apply(data);
    if (this.isDead) {
      // The history of a dead kernel arrives after the message of its death.
      this._endProcess();
    }
    this._changed.fire();
  }

  applyState(event: KernelEvent): void {
    this._state = event;
    if (this.isDead || event.executionState === 'restarting') {
      this._endProcess();
    }
    this._changed.fire();
  }

  applyClient(event: ClientEvent): void {
    if (event.state === 'detached') {
      this._clients.delete(event.sessionId);
    } else {
      this._clients.set(event.sessionId, event);
    }
    this._changed.fire();
  }

  /** The socket to the gateway is closed: its data about attached clients is no longer valid. */
  forgetClients(): void {
    if (this._clients.size > 0) {
      this._clients.clear();
      this._changed.fire();
    }
  }

  dispose(): void {
    this._changed.dispose();
  }

  private _apply(message: TelemetryMessage): void {
    switch (message.type) {
      case 'hello':
        // The agent greets again when its connection was cut; only another pid means another kernel process.
        if (this._agent?.pid !== message.pid) {
          this._endProcess();
        }
        this._agent = message;
        this._lastHelloAt = message.time;
        return;
      case 'devices':
        this._devices = message;
        return;
      case 'run':
        this.runs.applyRun(message);
        return;
      case 'steps':
        this.runs.applySteps(message);
        return;
      case 'figures':
      case 'media':
      case 'band':
      case 'pace':
      case 'hosts':
        this.runs.apply(message);
        return;
      case 'control':
        if (message.run === null) {
          keepNewest(this._requested, message);
        }
        this.runs.applyCommand(message);
        return;
      case 'memory':
        this._memory = message;
        return;
      case 'profile':
        this._profile = message;
        return;
      case 'compile':
        if (message.reused !== true) this.compilations.apply(message);
        return;
      case 'advice':
        keepNewest(this._advice, message);
        return;
      case 'memory-error':
        keepNewest(this._memoryErrors, message);
        return;
    }
  }

  private _endProcess(): void {
    this.runs.interrupt();
    this.compilations.interrupt();
    this._advice.clear();
    this._memory = null;
    this._profile = null;
    this._devices = null;
    this._agent = null;
  }

  private readonly _changed: ThrottledSignal<this>;
  private readonly _advice = new Map<string, AdviceMessage>();
  private readonly _memoryErrors = new Map<string, MemoryErrorMessage>();
  private readonly _requested = new Map<string, ControlMessage>();
  private _memory: MemoryMessage | null = null;
  private _profile: ProfileMessage | null = null;
  private readonly _clients = new Map<string, ClientEvent>();
  private _agent: HelloMessage | null = null;
  private _devices: DevicesMessage | null = null;
  private _state: KernelEvent | null = null;
  private _lastSeq = 0;
  private _missed = 0;
  private _clockAheadMs = 0;
  private _lastHelloAt = 0;
}

/** Stores a note by its id and keeps the newest `MAX_NOTES`: a repeated note replaces the earlier one. */
function keepNewest<T extends { readonly id: string }>(notes: Map<string, T>, note: T): void {
  notes.delete(note.id);
  notes.set(note.id, note);
  const oldest = notes.keys().next();
  if (notes.size > MAX_NOTES && !oldest.done) {
    notes.delete(oldest.value);
  }
}
