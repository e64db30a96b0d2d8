/** What people do with remotes: each action says when it fails instead of throwing. No DOM. */
import { type ISignal, Signal } from '@lumino/signaling';
import {
  type AddRemote,
  type CloudReach,
  type ConnectRemote,
  isSameMachine,
  reachedBy,
  reachOf,
  type Remote,
  type RemoteSource
} from '@tpulab/protocol';
import { RemotesError } from './api.js';
import type { Remotes } from './model.js';

/** What somebody wants of a machine; null: as it is there, and for a new one as is usual. */
export interface IConnectChoice {
  readonly environment: string | null;
  /** For a machine of Google Cloud. */
  readonly reach: CloudReach | null;
}

export class RemoteActions {
  constructor(readonly remotes: Remotes) {}

  /** The last action that failed, in a sentence; null after one that did not. */
  get problem(): string | null {
    return this._problem;
  }

  /** Emitted after `problem` or a remote has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /**
   * Adds a remote and connects it; its name, or null when the hub refused. A known source is connected again, and gets what is
   * wanted of it.
   */
  async connectTo(source: RemoteSource, choice: IConnectChoice): Promise<string | null> {
    const { environment, reach } = choice;
    const known = this.remotes.all.find(remote => isSameMachine(remote.source, source));
    if (known) {
      return (await this.connect(known.name, wishesFor(known, choice))) ? known.name : null;
    }
    const request: AddRemote = {
      source: reach === null ? source : reachedBy(source, reach),
      ...(environment !== null && { environment })
    };
    const added = await this.attempt(() => this.remotes.api.add(request));
    if (added) {
      this.remotes.apply({ remote: added, removed: false });
    }
    return added?.name ?? null;
  }

  connect(name: string, wishes?: ConnectRemote): Promise<boolean> {
    return this.done(() => this.remotes.api.connect(name, wishes));
  }

  disconnect(name: string): Promise<boolean> {
    return this.done(() => this.remotes.api.disconnect(name));
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
      this.say(null);
      return result;
    } catch (error) {
      this.say(error instanceof RemotesError ? error.message : String(error));
      return null;
    }
  }

  private say(problem: string | null): void {
    if (problem !== this._problem) {
      this._problem = problem;
      this._changed.emit();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  private _problem: string | null = null;
}

/** What is to be different from how this remote is. */
export function wishesFor(
  { source, environment: before }: Remote,
  { environment, reach }: IConnectChoice
): ConnectRemote {
  const reachedNow = reachOf(source);
  return {
    ...(environment !== null && environment !== before && { environment }),
    ...(reach !== null && reachedNow !== null && reach !== reachedNow && { reach })
  };
}
