/**
 * The remotes as the hub reports them: requested once when the bridge serves, and updated by its events. Their names are
 * stored between pages, so that the next page knows at its start which remotes to wait for.
 */
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import type { Remote, RemoteEvent } from '@tpulab/protocol';
import type { GatewayBackend } from './gateway-backend.js';
import { until } from '../platform/wait.js';
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

  /** Names of remotes from an earlier page, until the hub has answered. */
  get expected(): readonly string[] {
    return this._isKnown ? [...this._remotes.keys()] : this._remembered;
  }

  /** Whether the hub has listed its remotes. */
  get isKnown(): boolean {
    return this._isKnown;
  }

  /** Emitted with the name of a remote that was added, changed or removed, and with null after the first list. */
  readonly changed = new Signal<this, string | null>(this);

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get(name: string): Remote | null {
    return this._remotes.get(name) ?? null;
  }

  /** Resolves once the hub has listed its remotes, at the latest after `timeoutMs`. */
  settled(timeoutMs: number): Promise<void> {
    return until([this.changed], () => this._isKnown, timeoutMs);
  }

  apply({ remote, removed }: Pick<RemoteEvent, 'remote' | 'removed'>): void {
    if (removed) this._remotes.delete(remote.name);
    else this._remotes.set(remote.name, remote);
    this._listing.forEach(reported => reported.add(remote.name));
    this.remember();
    this.changed.emit(remote.name);
  }

  /** Requests the list from the hub. Never rejects: the next event or recovery brings missing changes. */
  async refresh(): Promise<void> {
    const reported = new Set<string>();
    this._listing.add(reported);
    try {
      const listed = (await this.api.list()) ?? [];
      if (this._isDisposed) return;
      // Events that arrived while the list was in flight may be newer than the list. If they are not, newer events follow.
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
      [...removedNames, ...names].forEach(name => this.changed.emit(name));
      this.changed.emit(null);
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
      // Storage is full or forbidden: the next page waits for no remote.
    }
  }

  private readNames(): string[] {
    try {
      const names: unknown = JSON.parse(this.storage?.getItem(KEY) ?? '[]');
      return Array.isArray(names) ? names.filter(name => typeof name === 'string') : [];
    } catch {
      return []; // written by another program: it is only a cache
    }
  }

  private readonly _remembered: readonly string[];
  private _remotes = new Map<string, Remote>();
  /** For each list in flight, the names of remotes with events in the meantime. */
  private readonly _listing = new Set<Set<string>>();
  private _isKnown = false;
  private _isDisposed = false;
}
