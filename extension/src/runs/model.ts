/** The user's requests to the runs of one kernel, and the progress of each. */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type { ControlAction, ControlCommand, ControlMessage, HyperValue } from '@tpulab/protocol';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';

/** A request without a final answer. */
interface PendingCommand {
  readonly id: string;
  readonly action: ControlAction;
  readonly run: string | null;
  /** Hyperparameter, for `set`. */
  readonly name: string | null;
  readonly value: HyperValue | null;
  /** `sent`: no answer yet. `accepted`: applied at the next step. */
  readonly phase: 'sent' | 'accepted';
}

/** Why a request failed, for the user who made it; removed by the next request of its kind. */
interface FailedCommand {
  readonly action: ControlAction;
  readonly name: string | null;
  readonly text: string;
}

interface ControlRequest {
  readonly action: ControlAction;
  readonly run: string | null;
  readonly name?: string;
  readonly value?: HyperValue;
  readonly step?: number;
}

/** The status of an accepted request without a final answer is requested at this interval: the answer may have been lost. */
export const RETRY_MS = 10_000;

export type Send = (command: ControlCommand) => Promise<ControlMessage>;

export class ControlModel implements IDisposable {
  /** @param newId unique names of commands */
  constructor(
    private readonly _kernel: KernelTelemetry,
    private readonly _send: Send,
    private readonly _newId: () => string = randomId
  ) {
    _kernel.changed.connect(this._settle, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get pending(): readonly PendingCommand[] {
    return [...this._pending.values()];
  }

  get failed(): readonly FailedCommand[] {
    return this._failed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** The pending request of this kind; null when there is none. */
  pendingOf(action: ControlAction, name: string | null = null): PendingCommand | null {
    return this.pending.find(one => one.action === action && one.name === name) ?? null;
  }

  /** Sends a request; returns the first answer. Never throws: errors are in `failed`. A newer hyperparameter value replaces an older. */
  async request({ action, run, name, value, step }: ControlRequest): Promise<ControlMessage | null> {
    const id = this._newId();
    const entry = { id, action, run, name: name ?? null, value: value ?? null };
    const command = { ...commandOf(entry), ...(step === undefined ? {} : { step }) };
    this._failed = this._failed.filter(one => one.action !== action || one.name !== entry.name);
    this._pending.set(id, { ...entry, phase: 'sent' });
    this._emit();
    let answer: ControlMessage | null = null;
    try {
      answer = await this._send(command);
      this._receive(answer);
    } catch (error) {
      this._pending.delete(id);
      this._fail({
        action,
        name: entry.name,
        text: error instanceof Error ? error.message : String(error)
      });
    }
    this._emit();
    this._requestLater();
    return answer;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._kernel.changed.disconnect(this._settle, this);
    Signal.clearData(this);
  }

  /** The stream may be ahead of the answer, or deliver the final answer long after it. */
  private _settle(): void {
    if (this._pending.size === 0) {
      return;
    }
    const reported = [...this._kernel.runs.runs.flatMap(run => run.commands), ...this._kernel.requests];
    for (const message of reported) {
      if (this._pending.has(message.id)) {
        this._receive(message);
      }
    }
    if (this._kernel.isDead) {
      this._pending.clear();
    }
    this._emit();
  }

  /** A command that is resent with its id is not applied twice: the answer is its result. */
  private _requestLater(): void {
    if (this._timer !== undefined || this._isDisposed || !this.pending.some(isAccepted)) {
      return;
    }
    this._timer = setTimeout(() => void this._repeatRequest(), RETRY_MS);
  }

  private async _repeatRequest(): Promise<void> {
    for (const entry of this.pending.filter(isAccepted)) {
      // An unreachable kernel gets the request again later.
      const answer = await this._send(commandOf(entry)).catch(() => null);
      if (answer !== null) {
        this._receive(answer);
      }
    }
    this._timer = undefined;
    this._emit();
    this._requestLater();
  }

  private _receive(message: ControlMessage): void {
    const entry = this._pending.get(message.id);
    if (!entry) {
      return;
    }
    if (message.phase === 'accepted') {
      this._pending.set(message.id, { ...entry, phase: 'accepted' });
      return;
    }
    this._pending.delete(message.id);
    if (message.phase !== 'applied') {
      this._fail({ action: entry.action, name: entry.name, text: message.reason ?? message.phase });
    }
  }

  private _fail(failed: FailedCommand): void {
    this._failed = [
      ...this._failed.filter(one => one.action !== failed.action || one.name !== failed.name),
      failed
    ];
  }

  private _emit(): void {
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _pending = new Map<string, PendingCommand>();
  private _failed: readonly FailedCommand[] = [];
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

function commandOf({ id, action, run, name, value }: Omit<PendingCommand, 'phase'>): ControlCommand {
  return { id, action, run, ...(name !== null && { name }), ...(value !== null && { value }) };
}

function isAccepted({ phase }: PendingCommand): boolean {
  return phase === 'accepted';
}

/** Not `randomUUID`: a page loaded over plain http from another machine lacks it. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}
