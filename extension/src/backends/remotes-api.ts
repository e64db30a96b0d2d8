/** The hub's routes for remotes, typed. Answers are checked where an invalid one would break the page. */
import type { ServerConnection } from '@jupyterlab/services';
import type {
  AddRemote,
  AnswerPrompt,
  ConnectRemote,
  EnvironmentInfo,
  Remote,
  RemoteCandidates,
  RemoteList,
  RemoteLogPage,
  SyncPlan,
  SyncRequest
} from '@tpulab/protocol';
import { requestBridge, type BridgeAnswer, messageOf, NoAnswer } from './bridge-request.js';

/** The hub refused, or is unreachable. `code` is the hub's, or `remotes.unreachable`. */
export class RemotesError extends Error {
  constructor(
    readonly code: string,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
    this.name = 'RemotesError';
  }

  /** The bridge starts, or is unreachable for a moment: the same request may succeed later. */
  get isPassing(): boolean {
    return this.code === 'remotes.unreachable' || this.code === 'not_ready';
  }
}

/** gcloud answers within half a minute or not at all. */
const CANDIDATES_TIMEOUT_MS = 60_000;
const TIMEOUT_MS = 15_000;
/** The bridge polls `colab` several times until the runtime has ended. */
const STOP_TIMEOUT_MS = 4 * 60_000;
/** Comparing a large folder takes long. */
const PLAN_TIMEOUT_MS = 6 * 60_000;

export class RemotesApi {
  /** `settings` of the hub; null while its address is unknown. */
  constructor(private readonly settings: () => ServerConnection.ISettings | null) {}

  /** Null from a hub that does not support remotes. */
  async list(): Promise<Remote[] | null> {
    const { remotes } = await this.request<Partial<RemoteList>>('GET', 'bridge/v1/machines').catch(
      (error: unknown): Partial<RemoteList> => {
        if (error instanceof RemotesError && error.code === 'remotes.unknownRoute') return {};
        throw error;
      }
    );
    return Array.isArray(remotes) ? remotes : null;
  }

  /** `project` of Google Cloud; null for gcloud's own. */
  candidates(project: string | null): Promise<RemoteCandidates> {
    const query = project === null ? '' : `?${new URLSearchParams({ project }).toString()}`;
    return this.request('GET', `bridge/v1/machines/candidates${query}`, undefined, CANDIDATES_TIMEOUT_MS);
  }

  async environments(): Promise<readonly EnvironmentInfo[]> {
    const body = await this.request<unknown>('GET', 'bridge/v1/environments');
    const list = Array.isArray(body) ? body : (body as { environments?: unknown }).environments;
    return Array.isArray(list) ? (list as EnvironmentInfo[]) : [];
  }

  add(request: AddRemote): Promise<Remote> {
    return this.request('POST', 'bridge/v1/machines', request);
  }

  connect(name: string, request?: ConnectRemote): Promise<unknown> {
    return this.request('POST', path(name, 'connect'), request);
  }

  /** `stop`: ends a Colab runtime too. */
  disconnect(name: string, stop = false): Promise<unknown> {
    const route = path(name, 'disconnect');
    return stop ? this.request('POST', route, { stop }, STOP_TIMEOUT_MS) : this.request('POST', route);
  }

  answer(name: string, answer: AnswerPrompt): Promise<unknown> {
    return this.request('POST', path(name, 'answer'), answer);
  }

  remove(name: string): Promise<unknown> {
    return this.request('DELETE', path(name));
  }

  /** The event log of this remote, oldest first. */
  async log(name: string): Promise<RemoteLogPage['lines']> {
    return (await this.request<RemoteLogPage>('GET', path(name, 'log'))).lines;
  }

  /** The preview of a sync, without running it. */
  planSync(name: string, request: SyncRequest, signal?: AbortSignal): Promise<SyncPlan> {
    return this.request('POST', path(name, 'sync'), { ...request, dryRun: true }, PLAN_TIMEOUT_MS, signal);
  }

  /** Shuts down the kernel that holds the chips of a remote, if it belongs to its gateway. */
  endHolder(name: string, pid: number): Promise<unknown> {
    return this.request('POST', `machines/${encodeURIComponent(name)}/bridge/v1/devices/holders/${pid}/end`);
  }

  /** A TPULab route at the hub. Throws `RemotesError`. */
  async request<T>(
    method: string,
    route: string,
    body?: unknown,
    timeoutMs = TIMEOUT_MS,
    signal?: AbortSignal
  ): Promise<T> {
    const question = { settings: this.settings(), route, method, body, timeoutMs, signals: [signal] };
    const answer = await requestBridge(question).catch((cause: unknown) => {
      const what = withoutAnswer(cause, timeoutMs);
      throw new RemotesError('remotes.unreachable', `The TPULab server on this machine ${what}.`, { cause });
    });
    if (!answer.response.ok) throw errorOf(answer);
    return (answer.body ?? answer.text) as T;
  }
}

function path(name: string, action?: string): string {
  const base = `bridge/v1/machines/${encodeURIComponent(name)}`;
  return action === undefined ? base : `${base}/${action}`;
}

function withoutAnswer(cause: unknown, timeoutMs: number): string {
  const code = cause instanceof NoAnswer ? cause.code : null;
  if (code === 'request.noAddress') return 'is not ready yet';
  return code === 'request.timeout' ? `did not answer within ${timeoutMs / 1000} s` : 'cannot be reached';
}

function errorOf(answer: BridgeAnswer): RemotesError {
  const { status } = answer.response;
  const { code } = (answer.body ?? {}) as { code?: unknown };
  if (status === 404 && (typeof code !== 'string' || code === 'not_found')) {
    return new RemotesError(
      'remotes.unknownRoute',
      'This TPULab server knows no machines; install a newer one.'
    );
  }
  return new RemotesError(
    typeof code === 'string' ? code : `http.${status}`,
    messageOf(answer) ?? `The TPULab server answered ${status}.`
  );
}
