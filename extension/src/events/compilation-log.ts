/** The compilations of a kernel: the newest one by one, the small eager ones counted by name. */
import type { CodeLocation, CompileMessage, CompileReason } from '@tpulab/protocol';

/** `interrupted`: the kernel ended before the compilation did. */
export type CompilationState = 'running' | 'finished' | 'failed' | 'interrupted';

export interface Compilation {
  /** Unique in this page: the number of the kernel process and the id within it. */
  readonly key: string;
  readonly function: string;
  readonly variant: number;
  readonly state: CompilationState;
  /** Unix milliseconds by the kernel's clock. */
  readonly startedAt: number;
  /** Tracing, lowering and compiling together; null while running or interrupted. */
  readonly durationMs: number | null;
  readonly cacheHit: boolean;
  /** What the persistent cache did and why; null while it runs, and where nobody tells. */
  readonly cache: NonNullable<CompileMessage['cache']> | null;
  readonly location: CodeLocation | null;
  readonly reason: CompileReason;
  /** Id of the run that it belongs to; null: none. */
  readonly run: string | null;
  /** Of a slice: the hosts that compiled it where not all did; null: all, or one host. */
  readonly hosts: readonly number[] | null;
}

/** Small programs that were made for one operation outside jit. */
export interface EagerPrograms {
  readonly function: string;
  readonly count: number;
  readonly totalMs: number;
}

/** Cards kept; the totals go on counting those that were dropped. */
export const MAX_COMPILATIONS = 200;
/** Names of eager programs kept; further names count in the totals only. */
const MAX_EAGER_NAMES = 100;

export class CompilationLog {
  /** Oldest first, at most `MAX_COMPILATIONS`. */
  get entries(): readonly Compilation[] {
    return this._entries;
  }

  get running(): readonly Compilation[] {
    return this._entries.filter(entry => entry.state === 'running');
  }

  /** Grows with each change: what was drawn for the same version need not be drawn again. */
  get version(): number {
    return this._version;
  }

  /** Compilations that ended, eager ones left out. */
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

  /** @param process number of the kernel process, because ids start again in a new one */
  apply(message: CompileMessage, process: number): void {
    this._version += 1;
    if (message.eager) {
      this._applyEager(message);
      return;
    }
    const key = `${process}:${message.id}`;
    const at = this._entries.findIndex(entry => entry.key === key);
    const before = at < 0 ? undefined : this._entries[at];
    if (before && before.state !== 'running') {
      // Which hosts of a slice had it is known a while after it has ended.
      if (message.hosts) {
        this._entries[at] = { ...before, hosts: message.hosts };
      }
      return;
    }
    const entry = fromMessage(message, key, before);
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

  /** The kernel process is gone: what was running will not end. */
  interrupt(): void {
    this._version += 1;
    this._entries.forEach((entry, at) => {
      if (entry.state === 'running') {
        this._entries[at] = { ...entry, state: 'interrupted' };
      }
    });
  }

  /** Forgets everything but what is still running. */
  clear(): void {
    this._version += 1;
    const running = this.running;
    this._entries.length = 0;
    this._entries.push(...running);
    this._eager.clear();
    this._count = 0;
    this._totalMs = 0;
    this._eagerCount = 0;
    this._eagerTotalMs = 0;
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

function fromMessage(message: CompileMessage, key: string, before: Compilation | undefined): Compilation {
  const durationMs = message.phase === 'started' ? null : durationOf(message);
  return {
    key,
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
