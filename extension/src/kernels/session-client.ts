/**
 * One sessions API over all backends. Routes by kernelspec name and by the entries of `SessionRoutes`, and moves a
 * session to another backend when Lab changes the kernel of a notebook to a kernel of that backend.
 */
import { type Kernel, KernelAPI, ServerConnection, type Session, SessionAPI } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { within } from '../platform/wait.js';
import { firstAnswers } from './first-answers.js';
import { unknownPlace } from '../backends/backend-error.js';
import type { GatewayBackend } from '../backends/gateway-backend.js';
import { toLab, readyToStart } from './bridge-kernel-client.js';
import { asConnectionFailure } from './failure.js';
import type { ISessionTarget } from '../backends/session-routes.js';
import type { Place } from '../backends/spec-names.js';
import { remoteOfPlace, splitSpecName } from '../backends/spec-names.js';
import type { IBridgeBackends } from '../backends/tokens.js';

export interface ISessionWaits {
  /** How long the first list waits for gateways that have not answered yet. */
  firstListMs: number;
  /** How long a list waits for a gateway's part before it uses the last known part. */
  bridgeListMs: number;
  /** How long a list waits for the Jupyter server. */
  jupyterListMs: number;
  /** How long a change of kernel waits for the old session to end. */
  oldSessionMs: number;
}

/**
 * Without the wait of the first list, Lab would start a second kernel for a notebook whose kernel runs on the bridge;
 * with a longer one an unresponsive bridge would delay Lab.
 */
const SESSION_WAITS: ISessionWaits = {
  firstListMs: 1_200,
  bridgeListMs: 1_200,
  jupyterListMs: 15_000,
  oldSessionMs: 3_000
};

type SessionUpdate = Parameters<Session.ISessionAPIClient['update']>[0];

export class CompositeSessionClient implements Session.ISessionAPIClient {
  readonly serverSettings: ServerConnection.ISettings;

  constructor(
    private readonly backends: IBridgeBackends,
    private readonly waits: ISessionWaits = SESSION_WAITS
  ) {
    this.serverSettings = backends.serverSettings;
    if (backends.jupyter !== null) {
      this._clients.set('jupyter', new SessionAPI.SessionAPIClient({ serverSettings: this.serverSettings }));
    }
    backends.gateways.forEach(gateway => this.addGateway(gateway));
    backends.gatewayAdded.connect((_, gateway) => this.addGateway(gateway));
    backends.gatewayRemoved.connect((_, { id }) => this._clients.delete(id));
  }

  /** The Jupyter server is unreachable. Failures of gateways are never Lab's own: they are in their states. */
  readonly connectionFailure = new Signal<this, Error>(this);

  /** A kernel was started or ended with a session, so a list of kernels is out of date. */
  readonly kernelsChanged = new Signal<this, void>(this);

  async listRunning(): Promise<Session.IModel[]> {
    const jupyter = this.listJupyter();
    // Waits for all, so that no rejection is unhandled while another request is awaited.
    const [own] = await Promise.allSettled([jupyter, this.listGateways()]);
    if (own.status === 'rejected') throw own.reason;
    return this.backends.routes.sessions();
  }

  async getModel(id: string): Promise<Session.IModel> {
    const target = this.target(id);
    return this.seen(target.place, await this.client(target.place).getModel(target.id));
  }

  async startNew(options: Session.ISessionOptions): Promise<Session.IModel> {
    const place = this.placeFor(options.kernel ?? null) ?? 'jupyter';
    await this.ready(place);
    await this._removing.get(leftoverKey(place, options.path));
    const request = await this.inSyncedFolder(place, toBackend(place, options));
    const model = this.seen(place, await this.client(place).startNew(request));
    this.backends.routes.sessionSeen(place, model);
    return this.backends.routes.toLab(place, model);
  }

  async shutdown(id: string): Promise<void> {
    const target = this.target(id);
    const { routes } = this.backends;
    routes.sessionRemoving(target.place, target.id);
    try {
      await this.client(target.place).shutdown(target.id);
      routes.sessionRemoved(target.place, target.id, true);
      this.kernelsChanged.emit();
    } catch (error) {
      routes.sessionRemoved(target.place, target.id, false);
      throw error;
    }
  }

  async update(change: SessionUpdate): Promise<Session.IModel> {
    const target = this.target(change.id);
    const wanted = change.kernel ? this.placeFor(change.kernel) : null;
    if (wanted !== null && wanted !== target.place) return this.move(change, target, wanted);
    const patched = await this.client(target.place).update(
      toBackend(target.place, { ...change, id: target.id })
    );
    const model = this.seen(target.place, patched);
    this.backends.routes.sessionSeen(target.place, model);
    return this.backends.routes.toLab(target.place, model);
  }

  /** Starts the session at the other backend and ends the old one; Lab continues with the id that it knows. */
  private async move(change: SessionUpdate, from: ISessionTarget, place: Place): Promise<Session.IModel> {
    const { routes } = this.backends;
    const old =
      routes.sessionAt(from) ?? this.seen(from.place, await this.client(from.place).getModel(from.id));
    await this.ready(place);
    const path = change.path ?? old.path;
    await this._removing.get(leftoverKey(place, path));
    const { kernel } = await this.inSyncedFolder(place, toBackend(place, { path, kernel: change.kernel }));
    const client = this.client(place);
    let model = await client.startNew({
      path,
      type: change.type ?? old.type,
      name: change.name ?? old.name,
      // The id can replace the name here: Jupyter's API accepts either.
      kernel: kernel as Pick<Kernel.IModel, 'name'>
    });
    const requested = kernel as Partial<Kernel.IModel>;
    if (
      requested.id !== undefined ? model.kernel?.id !== requested.id : model.kernel?.name !== requested.name
    ) {
      // The backend still had a session for this path, with another kernel.
      model = await client.update({ id: model.id, kernel: requested });
    }
    const moved = this.seen(place, model);
    routes.sessionMoved(change.id, place, moved);
    await within(this.removeOld(from, old.path), this.waits.oldSessionMs);
    return routes.toLab(place, moved);
  }

  /** Ends a session that was moved away. Never rejects: a session that cannot be ended now is ended later. */
  private removeOld(old: ISessionTarget, path: string): Promise<void> {
    const { routes } = this.backends;
    const key = leftoverKey(old.place, path);
    routes.sessionRemoving(old.place, old.id);
    const removing = this.client(old.place)
      .shutdown(old.id)
      .then(
        () => {
          routes.sessionRemoved(old.place, old.id, true);
          this.kernelsChanged.emit();
        },
        (error: unknown) => {
          if (error instanceof ServerConnection.ResponseError && error.response.status < 500) {
            routes.sessionRemoved(old.place, old.id, false);
          } else {
            this._leftovers.set(old.id, { ...old, path });
          }
        }
      )
      .finally(() => this._removing.delete(key));
    this._removing.set(key, removing);
    return removing;
  }

  private removeLeftovers(place: Place): void {
    for (const leftover of [...this._leftovers.values()].filter(item => item.place === place)) {
      this._leftovers.delete(leftover.id);
      void this.removeOld(leftover, leftover.path);
    }
  }

  private async listJupyter(): Promise<void> {
    const { jupyter, routes } = this.backends;
    if (jupyter === null) return;
    const ticket = routes.ticket();
    try {
      const models = await within(this.client('jupyter').listRunning(), this.waits.jupyterListMs);
      if (models === null) {
        const seconds = this.waits.jupyterListMs / 1000;
        throw new ServerConnection.NetworkError(
          new TypeError(`The Jupyter server did not list its sessions within ${seconds} s.`)
        );
      }
      routes.sessionsListed('jupyter', ticket, models);
      this._jupyterListed = true;
      jupyter.succeeded();
      this.removeLeftovers('jupyter');
    } catch (error) {
      const failure = asConnectionFailure(error);
      if (failure !== null) {
        jupyter.failed({ code: 'jupyter.unreachable', message: failure.message });
        this.connectionFailure.emit(failure);
      }
      if (!this._jupyterListed) throw error;
    }
  }

  private async listGateways(): Promise<void> {
    if (!this._waitedForGateways) {
      await firstAnswers(this.backends, this.waits.firstListMs);
      this._waitedForGateways = true;
    }
    await Promise.all(this.backends.gateways.map(gateway => this.listGateway(gateway)));
  }

  /** Never rejects: an unresponsive gateway retains its last list. */
  private async listGateway(gateway: GatewayBackend): Promise<void> {
    if (gateway.state !== 'ok') return;
    const { routes } = this.backends;
    const ticket = routes.ticket();
    const listed = this.client(gateway.id)
      .listRunning()
      .then(models => {
        if (this._clients.has(gateway.id)) {
          routes.sessionsListed(
            gateway.id,
            ticket,
            models.map(model => this.seen(gateway.id, model))
          );
        }
        return true;
      });
    await within(listed, this.waits.bridgeListMs).catch(() => gateway.suspect());
  }

  private addGateway(gateway: GatewayBackend): void {
    const { id, liveSettings } = gateway;
    this._clients.set(id, new SessionAPI.SessionAPIClient({ serverSettings: liveSettings }));
    gateway.recovered.connect(() => this.removeLeftovers(id));
  }

  private client(place: Place): Session.ISessionAPIClient {
    const client = this._clients.get(place);
    if (client === undefined) throw unknownPlace(place);
    return client;
  }

  /** A kernel of a synced folder starts in the remote folder, so it is started before its session. */
  private async inSyncedFolder<T extends { path: string; kernel?: unknown }>(
    place: Place,
    request: T
  ): Promise<T> {
    const remote = remoteOfPlace(place);
    const path = remote === null ? null : this.backends.syncFolders.pathOn(remote, request.path);
    const { name, id } = (request.kernel ?? {}) as { name?: string; id?: string };
    const gateway = this.backends.gateway(place);
    if (path === null || gateway === null || name === undefined || id !== undefined) return request;
    const kernels = new KernelAPI.KernelAPIClient({ serverSettings: gateway.liveSettings });
    const started = await kernels.startNew({ name, path } as Kernel.IKernelOptions);
    return { ...request, kernel: { id: started.id } };
  }

  private target(labId: string): ISessionTarget {
    return this.backends.routes.sessionTarget(labId) ?? { place: 'jupyter', id: labId };
  }

  /** The backend of the requested kernel; null when the request does not name one. */
  private placeFor(kernel: { id?: string; name?: string } | null): Place | null {
    if (kernel?.id !== undefined) return this.backends.routes.kernelPlace(kernel.id);
    if (kernel?.name === undefined) return null;
    return this.backends.specPlace(kernel.name);
  }

  private async ready(place: Place): Promise<void> {
    const gateway = this.backends.gateway(place);
    if (gateway !== null) await readyToStart(gateway);
  }

  /** A model from a backend, with the page's kernelspec names. */
  private seen(place: Place, model: Session.IModel): Session.IModel {
    return place !== 'jupyter' && model.kernel ? { ...model, kernel: toLab(place, model.kernel) } : model;
  }

  private readonly _clients = new Map<Place, Session.ISessionAPIClient>();
  private readonly _removing = new Map<string, Promise<void>>();
  private readonly _leftovers = new Map<string, ISessionTarget & { path: string }>();
  private _jupyterListed = false;
  private _waitedForGateways = false;
}

function leftoverKey(place: Place, path: string): string {
  return `${place} ${path}`;
}

/** The request with the backend's own kernelspec name; `id` of a kernel outranks its name, as in Jupyter's API. */
function toBackend<T extends { kernel?: unknown }>(place: Place, request: T): T {
  const kernel = request.kernel as Partial<Kernel.IModel> | null | undefined;
  if (!kernel) return request;
  if (kernel.id !== undefined) return { ...request, kernel: { id: kernel.id } };
  if (place !== 'jupyter' && kernel.name !== undefined) {
    return { ...request, kernel: { ...kernel, name: splitSpecName(kernel.name).name } };
  }
  return request;
}
