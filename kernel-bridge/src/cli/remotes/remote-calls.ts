/** Requests of the remote commands to the running gateway. */
import {
  type AddRemote,
  type AnswerPrompt,
  type ConnectRemote,
  Remote,
  RemoteCandidates,
  RemoteList,
  RemoteLogPage,
  RemoteSsh,
  SyncPlan,
  type SyncRequest,
  SyncStatus
} from '@tpulab/protocol';
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { below, chosenStateFolder, RunningGateway } from '../running-gateway.js';

/** gcloud lists the machines of a project, which takes time. */
const CANDIDATES_MS = 90_000;
const PLAN_MS = 6 * 60_000;
const CLEAN_MS = 11 * 60_000;
const STOP_MS = 4 * 60_000;

export class RemoteCalls {
  private constructor(private readonly gateway: RunningGateway) {}

  static async find(stateDir: string | undefined): Promise<RemoteCalls> {
    return new RemoteCalls(await RunningGateway.find(await chosenStateFolder(stateDir)));
  }

  async list(): Promise<Remote[]> {
    return (await this.#request(RemoteList, 'GET', '')).remotes;
  }

  get(name: string): Promise<Remote> {
    return this.#request(Remote, 'GET', `/${encodeURIComponent(name)}`);
  }

  add(body: AddRemote): Promise<Remote> {
    return this.#request(Remote, 'POST', '', body);
  }

  async remove(name: string): Promise<void> {
    await this.gateway.send('DELETE', `bridge/v1/machines/${encodeURIComponent(name)}`);
  }

  act(name: string, action: 'connect' | 'clean'): Promise<Remote> {
    const timeoutMs = action === 'clean' ? CLEAN_MS : undefined;
    return this.#request(Remote, 'POST', `/${encodeURIComponent(name)}/${action}`, undefined, timeoutMs);
  }

  /** `stop`: also ends a Colab runtime. */
  disconnect(name: string, stop: boolean): Promise<Remote> {
    const timeoutMs = stop ? STOP_MS : undefined;
    return this.#request(Remote, 'POST', `/${encodeURIComponent(name)}/disconnect`, { stop }, timeoutMs);
  }

  connect(name: string, body: ConnectRemote): Promise<Remote> {
    return this.#request(Remote, 'POST', `/${encodeURIComponent(name)}/connect`, body);
  }

  answer(name: string, body: AnswerPrompt): Promise<Remote> {
    return this.#request(Remote, 'POST', `/${encodeURIComponent(name)}/answer`, body);
  }

  async log(name: string): Promise<RemoteLogPage['lines']> {
    return (await this.#request(RemoteLogPage, 'GET', `/${encodeURIComponent(name)}/log`)).lines;
  }

  ssh(name: string): Promise<RemoteSsh> {
    return this.#request(RemoteSsh, 'GET', `/${encodeURIComponent(name)}/ssh`);
  }

  /** Process id of the server there. */
  async pid(name: string): Promise<number> {
    const health = Type.Object({ pid: Type.Integer() });
    return (await this.gateway.request(health, 'GET', `${below(name)}bridge/v1/health`)).pid;
  }

  /** A preview of a sync; comparing a large folder takes a long time. */
  planSync(name: string, request: SyncRequest): Promise<SyncPlan> {
    const path = `/${encodeURIComponent(name)}/sync`;
    return this.#request(SyncPlan, 'POST', path, { ...request, dryRun: true }, PLAN_MS);
  }

  startSync(name: string, request: SyncRequest): Promise<SyncStatus> {
    return this.#request(SyncStatus, 'POST', `/${encodeURIComponent(name)}/sync`, request);
  }

  syncStatus(name: string): Promise<SyncStatus> {
    return this.#request(SyncStatus, 'GET', `/${encodeURIComponent(name)}/sync`);
  }

  /** Candidates in `project` of Google Cloud; if omitted, in gcloud's own project. */
  candidates(project?: string): Promise<RemoteCandidates> {
    const query = project === undefined ? '' : `?${new URLSearchParams({ project }).toString()}`;
    return this.#request(RemoteCandidates, 'GET', `/candidates${query}`, undefined, CANDIDATES_MS);
  }

  #request<T extends TSchema>(
    schema: T,
    method: string,
    path: string,
    json?: unknown,
    timeoutMs?: number
  ): Promise<Static<T>> {
    const how = { json, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
    return this.gateway.request(schema, method, `bridge/v1/machines${path}`, how);
  }
}
