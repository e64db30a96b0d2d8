/** The compilations of a kernel: the newest individually, small eager ones counted by name. */
import type { CodeLocation, CompileMessage, CompileReason } from '@tpulab/protocol';

/** `interrupted`: the kernel ended before the compilation did. */
type CompilationState = 'running' | 'finished' | 'failed' | 'interrupted';

export interface Compilation {
  /** The agent's id; unique within its kernel, over restarts too. */
  readonly id: number;
  readonly function: string;
  readonly variant: number;
  readonly state: CompilationState;
  /** Unix milliseconds by the kernel's clock. */
  readonly startedAt: number;
  /** Tracing, lowering and compiling together; null while running or interrupted. */
  readonly durationMs: number | null;
  readonly cacheHit: boolean;
  /** The persistent cache's action and reason; null while it runs, and where not reported. */
  readonly cache: NonNullable<CompileMessage['cache']> | null;
  readonly location: CodeLocation | null;
  readonly reason: CompileReason;
  /** Id of the run that it belongs to; null: none. */
  readonly run: string | null;
  /** In a slice, the hosts that compiled it if not all did; null: all hosts, or a single host. */
  readonly hosts: readonly number[] | null;
}

/** Small programs that were compiled for one operation outside jit. */
interface EagerPrograms {
  readonly function: string;
  readonly count: number;
  readonly totalMs: number;
}

/** Maximum number of cards; the totals still count dropped ones. */
export const MAX_COMPILATIONS = 200;
/** Maximum number of names of eager programs; further names count in the totals only. */
const MAX_EAGER_NAMES = 100;

export class CompilationLog {
  /** Oldest first, at most `MAX_COMPILATIONS`. */
  get entries(): readonly Compilation[] {
    return this._entries;
  }

  get running(): readonly Compilation[] {
    return this._entries.filter(entry => entry.state === 'running');
  }

  /** Increases with each change: an unchanged version need not be redrawn. */
  get version(): number {
    return this._version;
  }

  /** Completed compilations, without eager ones. */
  get count(): number {
    return this._count;
  }

  get totalMs(): number {
    return this._totalMs;
  }

  get eagerCount(): number {
    return this._eagerCount;
  }

  get eagerTotalMs(): number {
    return this._eagerTotalMs;
  }

  /** The costliest first. */
  get eager(): readonly EagerPrograms[] {
    return [...this._eager.values()].sort((a, b) => b.totalMs - a.totalMs);
  }

  apply(message: CompileMessage): void {
    this._version += 1;
    if (message.eager) {
      this._applyEager(message);
      return;
    }
    const at = this._entries.findIndex(({ id }) => id === message.id);
    const before = at < 0 ? undefined : this._entries[at];
    if (before && before.state !== 'running') {
      // The hosts of a slice that compiled it are known some time after it has ended.
      if (message.hosts) {
        this._entries[at] = { ...before, hosts: message.hosts };
      }
      return;
    }
    const entry = fromMessage(message, before);
    if (at < 0) {
      this._entries.push(entry);
      this._trim();
    } else {
      this._entries[at] = entry;
    }
    if (entry.durationMs !== null) {
      this._count += 1;
      this._totalMs += entry.durationMs;
    }
  }

  /** The kernel process has ended: running compilations will not complete. */
  interrupt(): void {
    this._version += 1;
    this._entries.forEach((entry, at) => {
      if (entry.state === 'running') {
        this._entries[at] = { ...entry, state: 'interrupted' };
      }
    });
  }

  private _applyEager(message: CompileMessage): void {
    if (message.phase === 'started') {
      return;
    }
    const ms = durationOf(message);
    this._eagerCount += 1;
    this._eagerTotalMs += ms;
    const before = this._eager.get(message.function);
    if (before || this._eager.size < MAX_EAGER_NAMES) {
      this._eager.set(message.function, {
        function: message.function,
        count: (before?.count ?? 0) + 1,
        totalMs: (before?.totalMs ?? 0) + ms
      });
    }
  }

  private _trim(): void {
    while (this._entries.length > MAX_COMPILATIONS) {
      this._entries.shift();
    }
  }

  private readonly _entries: Compilation[] = [];
  private readonly _eager = new Map<string, EagerPrograms>();
  private _version = 0;
  private _count = 0;
  private _totalMs = 0;
  private _eagerCount = 0;
  private _eagerTotalMs = 0;
}

function fromMessage(message: CompileMessage, before: Compilation | undefined): Compilation {
  const durationMs = message.phase === 'started' ? null : durationOf(message);
  return {
    id: message.id,
    function: message.function,
    variant: message.variant,
    state: message.phase === 'started' ? 'running' : message.phase,
    startedAt: before?.startedAt ?? message.time - (durationMs ?? 0),
    durationMs,
    cacheHit: message.cacheHit,
    cache: message.cache ?? null,
    location: message.location ?? before?.location ?? null,
    reason: message.reason,
    run: message.run ?? before?.run ?? null,
    hosts: message.hosts ?? null
  };
}

function durationOf(message: CompileMessage): number {
  return message.traceMs + message.lowerMs + message.compileMs;
}
