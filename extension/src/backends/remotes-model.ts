/**
 * The remotes as the hub tells them: asked for once when the bridge serves, and kept up to date by its events. Their names are
 * remembered between pages, so that the next page knows at its start for whom to wait.
 */
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';
import type { Remote, RemoteEvent } from '@tpulab/protocol';
import type { GatewayBackend } from './gateway-backend.js';
import { RemotesApi } from './remotes-api.js';

const KEY = 'tpulab:remotes';

export class Remotes implements IDisposable {
  readonly api: RemotesApi;

  constructor(
    private readonly bridge: GatewayBackend,
    private readonly storage: Pick<Storage, 'getItem' | 'setItem'> | null
  ) {
    this.api = new RemotesApi(() => bridge.serverSettings);
    this._remembered = this.readNames();
    bridge.recovered.connect(this.onRecovered, this);
  }

  /** In the order in which they were added. */
  get all(): readonly Remote[] {
    return [...this._remotes.values()];
  }

  /** Names of remotes that an earlier page knew, until the hub has been asked. */
  get expected(): readonly string[] {
    return this._isKnown ? [...this._remotes.keys()] : this._remembered;
  }

  /** Whether the hub has told which remotes there are. */
  get isKnown(): boolean {
    return this._isKnown;
  }

  /** Emitted with the name of a remote that was added, changed or removed, and with null after the first list. */
  get changed(): ISignal<this, string | null> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get(name: string): Remote | null {
    return this._remotes.get(name) ?? null;
  }

  /** Resolves once the hub has told its remotes, at the latest after `timeoutMs`. */
  settled(timeoutMs: number): Promise<void> {
    if (this._isKnown) {
      return Promise.resolve();
    }
    return new Promise(resolve => {
      const finish = (): void => {
        clearTimeout(timer);
        this._changed.disconnect(check);
        resolve();
      };
      const check = (): void => {
        if (this._isKnown) {
          finish();
        }
      };
      const timer = setTimeout(finish, timeoutMs);
      this._changed.connect(check);
    });
  }

  apply({ remote, removed }: Pick<RemoteEvent, 'remote' | 'removed'>): void {
    if (removed) {
      this._remotes.delete(remote.name);
    } else {
      this._remotes.set(remote.name, remote);
    }
    this._listing.forEach(reported => reported.add(remote.name));
    this.remember();
    this._changed.emit(remote.name);
  }

  /** Asks the hub. Never rejects: the next event or recovery brings what is missing. */
  async refresh(): Promise<void> {
    const reported = new Set<string>();
    this._listing.add(reported);
    try {
      const listed = (await this.api.list()) ?? [];
      if (this._isDisposed) {
        return;
      }
      // News that came while the list was on its way may be newer than the list. If they are not, those that are follow.
      const list = listed.flatMap(remote =>
        reported.has(remote.name) ? (this.get(remote.name) ?? []) : remote
      );
      const names = new Set(list.map(({ name }) => name));
      list.push(...this.all.filter(({ name }) => reported.has(name) && !names.has(name)));
      list.forEach(({ name }) => names.add(name));
      const removedNames = [...this._remotes.keys()].filter(name => !names.has(name));
      this._remotes = new Map(list.map(remote => [remote.name, remote]));
      this._isKnown = true;
      this.remember();
      [...removedNames, ...names].forEach(name => this._changed.emit(name));
      this._changed.emit(null);
    } catch {
      this.bridge.suspect();
    } finally {
      this._listing.delete(reported);
    }
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this.bridge.recovered.disconnect(this.onRecovered, this);
      Signal.clearData(this);
    }
  }

  private onRecovered(): void {
    void this.refresh();
  }

  private remember(): void {
    try {
      this.storage?.setItem(KEY, JSON.stringify([...this._remotes.keys()]));
    } catch {
      // Storage is full or forbidden: the next page waits for nobody.
    }
  }

  private readNames(): string[] {
    try {
      const names: unknown = JSON.parse(this.storage?.getItem(KEY) ?? '[]');
      return Array.isArray(names) ? names.filter(name => typeof name === 'string') : [];
    } catch {
      return []; // written by something else: it is only a memory
    }
  }

  private readonly _remembered: readonly string[];
  private readonly _changed = new Signal<this, string | null>(this);
  private _remotes = new Map<string, Remote>();
  /** For each list that is under way, the names of which there was news meanwhile. */
  private readonly _listing = new Set<Set<string>>();
  private _isKnown = false;
  private _isDisposed = false;
}
