/** User actions on remotes: each reports a failure instead of throwing. No DOM. */
import { Signal } from '@lumino/signaling';
import {
  type AddRemote,
  type CloudReach,
  type ConnectRemote,
  isSameMachine,
  reachedBy,
  reachOf,
  type Remote
} from '@tpulab/protocol';
import { RemotesError } from '../backends/remotes-api.js';
import type { Remotes } from '../backends/remotes-model.js';

/** The requested settings of a machine; null: its present setting, or the default for a new machine. */
export interface IConnectChoice {
  readonly environment: string | null;
  /** For a machine of Google Cloud. */
  readonly reach: CloudReach | null;
  /** Whether missing components are installed there. */
  readonly install: boolean | null;
}

export class RemoteActions {
  constructor(readonly remotes: Remotes) {}

  /** The last failed action, as a sentence; null after a success. */
  get problem(): string | null {
    return this._problem;
  }

  /** The remote whose Colab runtime is being ended: it is disconnected immediately, and billed until it has ended. */
  get ending(): string | null {
    return this._ending;
  }

  /** Emitted after `problem`, `ending` or a remote has changed. */
  readonly changed = new Signal<this, void>(this);

  /**
   * Adds a remote and connects it; returns its name, or null when the hub refused. A known source is connected again, with the
   * requested settings.
   */
  async connectTo(source: AddRemote['source'], choice: IConnectChoice): Promise<string | null> {
    const { environment, reach, install } = choice;
    const known = this.remotes.all.find(remote => isSameMachine(remote.source, source));
    if (known) return (await this.connect(known.name, changesFor(known, choice))) ? known.name : null;
    const request: AddRemote = {
      source: reach === null ? source : reachedBy(source, reach),
      ...(environment !== null && { environment }),
      ...(install !== null && { install })
    };
    const added = await this.attempt(() => this.remotes.api.add(request));
    if (added) {
      this.remotes.apply({ remote: added, removed: false });
    }
    return added?.name ?? null;
  }

  connect(name: string, request?: ConnectRemote): Promise<boolean> {
    return this.done(() => this.remotes.api.connect(name, request));
  }

  /** `stop`: ends a Colab runtime too. */
  async disconnect(name: string, stop = false): Promise<boolean> {
    if (stop) this.end(name);
    try {
      return await this.done(() => this.remotes.api.disconnect(name, stop));
    } finally {
      if (stop) this.end(null);
    }
  }

  answer(name: string, id: string, value: string | boolean): Promise<boolean> {
    return this.done(() => this.remotes.api.answer(name, { id, value }));
  }

  async remove(name: string): Promise<boolean> {
    const remote = this.remotes.get(name);
    const isDone = await this.done(() => this.remotes.api.remove(name));
    if (isDone && remote) {
      this.remotes.apply({ remote, removed: true });
    }
    return isDone;
  }

  private async done(action: () => Promise<unknown>): Promise<boolean> {
    return (await this.attempt(async () => (await action(), true))) ?? false;
  }

  private async attempt<T>(action: () => Promise<T>): Promise<T | null> {
    try {
      const result = await action();
      this.show(null);
      return result;
    } catch (error) {
      this.show(error instanceof RemotesError ? error.message : String(error));
      return null;
    }
  }

  private show(problem: string | null): void {
    if (problem !== this._problem) {
      this._problem = problem;
      this.changed.emit();
    }
  }

  private end(name: string | null): void {
    this._ending = name;
    this.changed.emit();
  }

  private _problem: string | null = null;
  private _ending: string | null = null;
}

/** The requested changes of this remote. */
export function changesFor(
  { source, environment: before, install: installs }: Remote,
  { environment, reach, install }: IConnectChoice
): ConnectRemote {
  const reachedNow = reachOf(source);
  return {
    ...(environment !== null && environment !== before && { environment }),
    ...(install !== null && install !== installs && { install }),
    ...(reach !== null && reachedNow !== null && reach !== reachedNow && { reach })
  };
}
