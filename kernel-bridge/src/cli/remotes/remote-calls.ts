/** What the commands for remotes ask of the running gateway. */
import {
  type AddRemote,
  type AnswerPrompt,
  type ConnectRemote,
  Remote,
  RemoteCandidates,
  RemoteList,
  RemoteLogPage,
  SyncPlan,
  type SyncRequest,
  SyncStatus
} from '@tpulab/protocol';
import type { Static, TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { stateFolder } from '../../server/state-folder.js';
import { CommandError } from '../command-errors.js';
import { requestGateway } from '../gateway-request.js';
import { RunningGateway } from '../running-gateway.js';

const ANSWER_MS = 30_000;
/** gcloud is asked for the machines of a project. */
const CANDIDATES_MS = 90_000;
const PLAN_MS = 6 * 60_000;
const CLEAN_MS = 11 * 60_000;

/** The gateway refused, with a code of its own (docs/errors.md). */
export class GatewayRefusal extends Error {
  override readonly name = 'GatewayRefusal';

  constructor(
    readonly code: string,
    message: string
  ) {
    super(message);
  }
}

export class RemoteCalls {
  private constructor(private readonly gateway: RunningGateway) {}

  static async find(stateDir: string | undefined): Promise<RemoteCalls> {
    return new RemoteCalls(await RunningGateway.find(stateFolder(stateDir)));
  }

  async list(): Promise<Remote[]> {
    return (await this.#ask(RemoteList, 'GET', '')).remotes;
  }

  get(name: string): Promise<Remote> {
    return this.#ask(Remote, 'GET', `/${encodeURIComponent(name)}`);
  }

  add(body: AddRemote): Promise<Remote> {
    return this.#ask(Remote, 'POST', '', body);
  }

  async remove(name: string): Promise<void> {
    await this.#send('DELETE', `/${encodeURIComponent(name)}`, ANSWER_MS);
  }

  act(name: string, action: 'connect' | 'disconnect' | 'clean'): Promise<Remote> {
    const timeoutMs = action === 'clean' ? CLEAN_MS : ANSWER_MS;
    return this.#ask(Remote, 'POST', `/${encodeURIComponent(name)}/${action}`, undefined, timeoutMs);
  }

  connect(name: string, body: ConnectRemote): Promise<Remote> {
    return this.#ask(Remote, 'POST', `/${encodeURIComponent(name)}/connect`, body);
  }

  answer(name: string, body: AnswerPrompt): Promise<Remote> {
    return this.#ask(Remote, 'POST', `/${encodeURIComponent(name)}/answer`, body);
  }

  async log(name: string): Promise<RemoteLogPage['lines']> {
    return (await this.#ask(RemoteLogPage, 'GET', `/${encodeURIComponent(name)}/log`)).lines;
  }

  /** What a sync would do; comparing a large folder takes long. */
  planSync(name: string, request: SyncRequest): Promise<SyncPlan> {
    const path = `/${encodeURIComponent(name)}/sync`;
    return this.#ask(SyncPlan, 'POST', path, { ...request, dryRun: true }, PLAN_MS);
  }

  startSync(name: string, request: SyncRequest): Promise<SyncStatus> {
    return this.#ask(SyncStatus, 'POST', `/${encodeURIComponent(name)}/sync`, request);
  }

  syncStatus(name: string): Promise<SyncStatus> {
    return this.#ask(SyncStatus, 'GET', `/${encodeURIComponent(name)}/sync`);
  }

  cancelSync(name: string): Promise<SyncStatus> {
    return this.#ask(SyncStatus, 'DELETE', `/${encodeURIComponent(name)}/sync`);
  }

  /** `project` of Google Cloud; else gcloud's own. */
  candidates(project?: string): Promise<RemoteCandidates> {
    const query = project === undefined ? '' : `?${new URLSearchParams({ project }).toString()}`;
    return this.#ask(RemoteCandidates, 'GET', `/candidates${query}`, undefined, CANDIDATES_MS);
  }

  async #ask<T extends TSchema>(
    schema: T,
    method: string,
    path: string,
    json?: unknown,
    timeoutMs = ANSWER_MS
  ): Promise<Static<T>> {
    const answer = await this.#send(method, path, timeoutMs, json);
    if (!Value.Check(schema, answer)) {
      throw new CommandError('gateway_unresponsive', 'What the gateway says of its remotes is garbled.');
    }
    return answer;
  }

  async #send(method: string, path: string, timeoutMs: number, json?: unknown): Promise<unknown> {
    const { record, token } = this.gateway;
    const { status, body } = await requestGateway({
      url: record.url,
      token,
      method,
      path: `bridge/v1/remotes${path}`,
      timeoutMs,
      json
    });
    const answer: unknown = body === '' ? null : JSON.parse(body);
    if (status >= 200 && status <= 299) return answer;
    const { code = 'gateway_unresponsive', message = `The gateway answered ${status}.` } = (answer ?? {}) as {
      code?: string;
      message?: string;
    };
    throw new GatewayRefusal(code, message);
  }
}
