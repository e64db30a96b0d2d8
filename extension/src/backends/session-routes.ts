/**
 * The server of each session and kernel of this page, and the id under which Lab knows it.
 *
 * Lab keeps the id of a session for its whole life, but a notebook whose kernel moves to another server gets a new
 * session there. So a moved session keeps its old id here, as an *alias* of the real one. Lists that were requested
 * before such a change arrive after it; first-hand knowledge (a *fact*) outranks them until a list that was
 * requested later confirms it. Without this, a late list would reconnect Lab to a kernel that was just shut down.
 *
 * Pure bookkeeping: no requests, no clock. Models hold the page's kernelspec names.
 */
import type { Kernel, Session } from '@jupyterlab/services';
import { type Place, remoteOfPlace } from './spec-names.js';

/** Order of events: a later request has the larger number. */
type Ticket = number;

export interface ISessionTarget {
  readonly place: Place;
  /** The id at the backend. */
  readonly id: string;
}

interface IFact {
  readonly model: Session.IModel | null;
  readonly at: Ticket;
  /** True while the request that causes it is in flight: then no list can contradict it. */
  readonly pending: boolean;
}

interface IPlaceState {
  lastList: Ticket;
  sessions: Map<string, Session.IModel>;
  readonly facts: Map<string, IFact>;
}

export class SessionRoutes {
  /** To be called when a list is requested, not when it arrives. */
  ticket(): Ticket {
    return ++this._now;
  }

  /** A list of a backend has arrived. `ticket` is from the moment of its request. */
  sessionsListed(place: Place, ticket: Ticket, models: readonly Session.IModel[]): void {
    const state = this.at(place);
    if (ticket < state.lastList) {
      return; // a list that was requested later is already here
    }
    state.lastList = ticket;
    const sessions = new Map(models.map(model => [model.id, model]));
    for (const [id, fact] of state.facts) {
      if (!fact.pending && fact.at < ticket) {
        // The list is newer. A removed session that is still listed stays hidden until it has really ended.
        if (fact.model !== null || !sessions.has(id)) {
          state.facts.delete(id);
          continue;
        }
      }
      if (fact.model === null) sessions.delete(id);
      else sessions.set(id, fact.model);
    }
    state.sessions = sessions;
    for (const model of sessions.values()) this.learnKernel(place, model.kernel);
    this.dropUnusedAliases();
  }

  /** A session was started or changed at a backend; `model.id` is the backend's. */
  sessionSeen(place: Place, model: Session.IModel): void {
    const state = this.at(place);
    state.facts.set(model.id, { model, at: this.ticket(), pending: false });
    state.sessions.set(model.id, model);
    this.learnKernel(place, model.kernel);
  }

  /** A session is about to be shut down: it disappears now. `id` is the backend's. */
  sessionRemoving(place: Place, id: string): void {
    const state = this.at(place);
    state.facts.set(id, { model: null, at: this.ticket(), pending: true });
    state.sessions.delete(id);
  }

  /** The shutdown has completed. If it failed for good (`isRemoved` false), the session is shown again. */
  sessionRemoved(place: Place, id: string, isRemoved: boolean): void {
    const state = this.at(place);
    if (isRemoved) {
      state.facts.set(id, { model: null, at: this.ticket(), pending: false });
    } else {
      state.facts.delete(id);
    }
    this.dropUnusedAliases();
  }

  /** The session that Lab knows as `labId` is now `model` at `place`. */
  sessionMoved(labId: string, place: Place, model: Session.IModel): void {
    this.sessionSeen(place, model);
    if (model.id === labId) {
      this._aliases.delete(labId);
    } else {
      this._aliases.set(labId, { place, id: model.id });
    }
  }

  /** The real place and id of the session that Lab knows as `labId`; null when no list has shown it. */
  sessionTarget(labId: string): ISessionTarget | null {
    const alias = this._aliases.get(labId);
    if (alias !== undefined) return alias;
    for (const [place, { sessions }] of this._places) {
      if (sessions.has(labId)) return { place, id: labId };
    }
    return null;
  }

  /** The model at the backend; null when unknown. */
  sessionAt(target: ISessionTarget): Session.IModel | null {
    return this.at(target.place).sessions.get(target.id) ?? null;
  }

  /** All sessions under Lab's ids, the page's own server first. Of two with one id the first counts. */
  sessions(): Session.IModel[] {
    const byId = new Map<string, Session.IModel>();
    for (const [place, { sessions }] of this._places) {
      for (const model of sessions.values()) {
        const seen = this.toLab(place, model);
        if (!byId.has(seen.id)) byId.set(seen.id, seen);
      }
    }
    return [...byId.values()];
  }

  /** The model with the id that Lab knows. */
  toLab(place: Place, model: Session.IModel): Session.IModel {
    for (const [labId, target] of this._aliases) {
      if (target.place === place && target.id === model.id) return { ...model, id: labId };
    }
    return model;
  }

  kernelsListed(place: Place, models: readonly Kernel.IModel[]): void {
    for (const model of models) this.learnKernel(place, model);
  }

  learnKernel(place: Place, model: Pick<Kernel.IModel, 'id'> | null): void {
    if (model === null) return;
    // A kernel never moves, so entries are only added; ids are small and a page sees few. If a list could change an entry, a remote
    // that lists a kernel of this machine, or of another remote, would receive the code that users run on that kernel.
    const known = this._kernels.get(model.id);
    if (known === undefined || remoteOfPlace(place) === null) this._kernels.set(model.id, place);
  }

  kernelPlace(kernelId: string): Place | null {
    return this._kernels.get(kernelId) ?? null;
  }

  private dropUnusedAliases(): void {
    for (const [labId, target] of this._aliases) {
      if (!this.at(target.place).sessions.has(target.id)) this._aliases.delete(labId);
    }
  }

  /** A remote was removed: its sessions and kernels are removed from this page. */
  forget(place: Place): void {
    this._places.delete(place);
    for (const [id, where] of this._kernels) {
      if (where === place) this._kernels.delete(id);
    }
    this.dropUnusedAliases();
  }

  private at(place: Place): IPlaceState {
    let state = this._places.get(place);
    if (state === undefined) {
      state = { lastList: 0, sessions: new Map(), facts: new Map() };
      this._places.set(place, state);
    }
    return state;
  }

  private _now: Ticket = 0;
  private readonly _places = new Map<Place, IPlaceState>([
    ['jupyter', { lastList: 0, sessions: new Map(), facts: new Map() }],
    ['bridge', { lastList: 0, sessions: new Map(), facts: new Map() }]
  ]);
  private readonly _aliases = new Map<string, ISessionTarget>();
  private readonly _kernels = new Map<string, Place>();
}
