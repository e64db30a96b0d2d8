import { STATUS_CODES } from 'node:http';
import { CodedError } from '../platform/coded-error.js';

/** HTTP status by code. docs/errors.md lists the same, and a test keeps both equal. */
export const BRIDGE_ERRORS = {
  unauthorized: 403,
  read_only: 403,
  not_permitted: 403,
  host_refused: 403,
  origin_refused: 403,
  too_many_attempts: 429,
  too_many_sockets: 503,
  not_ready: 503,
  route_not_found: 404,
  method_not_allowed: 405,
  upgrade_required: 426,
  invalid_request: 400,
  payload_too_large: 413,
  headers_too_large: 431,
  request_timeout: 408,
  kernel_not_found: 404,
  kernel_choice_invalid: 400,
  kernel_exists: 409,
  kernelspec_unknown: 501,
  kernelspec_not_found: 404,
  env_unknown: 404,
  resource_not_found: 404,
  kernel_start_failed: 500,
  kernel_action_failed: 500,
  kernel_restarting: 409,
  control_unavailable: 409,
  control_unanswered: 504,
  journal_unreadable: 500,
  session_not_found: 404,
  session_gone: 410,
  run_not_found: 404,
  holder_not_found: 404,
  holder_not_ours: 409,
  lock_not_removable: 409,
  remote_not_found: 404,
  remote_exists: 409,
  remote_prompt_gone: 409,
  remote_unavailable: 503,
  remote_bad_answer: 502,
  remote_action_failed: 500,
  lessons_not_written: 500,
  file_path_invalid: 400,
  file_not_found: 404,
  file_exists: 409,
  file_wrong_kind: 409,
  file_changed: 412,
  file_version_missing: 428,
  file_too_large: 413,
  file_denied: 403,
  file_storage_full: 507,
  file_action_failed: 500,
  share_not_made: 409,
  share_not_found: 404,
  session_page_missing: 404,
  docs_missing: 404,
  internal: 500
} as const;

export type BridgeErrorCode = keyof typeof BRIDGE_ERRORS;

/**
 * Errors that a client of the gateway sees: one class for each decision that it can take. The code is stable and is
 * what programs look at.
 */
export class BridgeError extends CodedError<BridgeErrorCode> {
  override readonly name = 'BridgeError';

  /** HTTP status of an answer that carries this error. */
  get status(): number {
    return BRIDGE_ERRORS[this.code];
  }

  /** A few words for people, as Jupyter's answers have them. */
  get reason(): string | null {
    return STATUS_CODES[this.status] ?? null;
  }
}

/**
 * The class of all errors with this code. `text` makes the message of what they are about; what follows that, or an error that is among
 * it, is the cause.
 */
export function errorWith<A extends readonly unknown[]>(
  code: BridgeErrorCode,
  text: (...about: A) => string
): new (...about: [...A, cause?: unknown]) => BridgeError {
  return class extends BridgeError {
    constructor(...about: [...A, cause?: unknown]) {
      const cause = about[text.length] ?? about.find(each => each instanceof Error);
      super(code, text(...(about as unknown as A)), { cause });
    }
  };
}

const own = (message: string): string => message;
const why = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const UnauthorizedError = errorWith(
  'unauthorized',
  () => 'This request has no valid token; send the header "Authorization: token TOKEN".'
);

/** The token is one for reading a notebook, and this is something else. */
export const ReadOnlyError = errorWith(
  'read_only',
  () => 'This link can only read one notebook; ask its owner for a token with more rights.'
);

export const NotPermittedError = errorWith(
  'not_permitted',
  (level: string) =>
    `A token that may ${level} may not do this, or not here; ask its owner for one with more rights ("tpulab token add").`
);

export const HostRefusedError = errorWith(
  'host_refused',
  (host: string) =>
    `The Host header ${JSON.stringify(host)} does not name this server; use the URL it printed.`
);

export const OriginRefusedError = errorWith('origin_refused', (origin: string) => {
  const flag = /^https?:\/\/[\w.:[\]-]+$/.test(origin) ? `--allow-origin ${origin}` : '--allow-origin';
  return `Pages of ${JSON.stringify(origin)} may not use this server, even with a valid token; start it with ${flag} to allow them.`;
});

/** Wrong tokens come so fast that they are no longer looked at one by one in the log. A good one is always let in. */
export class TooManyAttemptsError extends BridgeError {
  constructor(readonly retryAfterS: number) {
    super(
      'too_many_attempts',
      `Too many requests without a valid token came from this address; wait ${retryAfterS} s.`
    );
  }
}

export const TooManySocketsError = errorWith(
  'too_many_sockets',
  (limit: number) => `${limit} WebSockets are open, the maximum; close some, or raise Bridge.max_sockets.`
);

export const NotReadyError = errorWith(
  'not_ready',
  (what?: string) => what ?? 'The server is still looking for its kernels; try again in a moment.'
);

export const RouteNotFoundError = errorWith(
  'route_not_found',
  (method: string, path: string) =>
    `The server has no ${method} ${path}; GET /bridge/v1/openapi.json describes what it has.`
);

export class MethodNotAllowedError extends BridgeError {
  constructor(
    method: string,
    path: string,
    readonly allowed: readonly string[] = []
  ) {
    super('method_not_allowed', `${path} does not take ${method}; it takes ${allowed.join(', ')}.`);
  }
}

export const UpgradeRequiredError = errorWith(
  'upgrade_required',
  (path: string) => `${path} is a WebSocket; connect to it with ws:// instead of fetching it.`
);

export const InvalidRequestError = errorWith('invalid_request', own);

export const PayloadTooLargeError = errorWith(
  'payload_too_large',
  (limitBytes: number) => `The body is larger than ${limitBytes} bytes; send less.`
);

export const HeadersTooLargeError = errorWith(
  'headers_too_large',
  (limitBytes: number) =>
    `The headers or the URL of this request are larger than ${limitBytes} bytes; send less.`
);

export const RequestTimeoutError = errorWith(
  'request_timeout',
  () => 'The request did not arrive in time; send it again.'
);

export const KernelNotFoundError = errorWith(
  'kernel_not_found',
  (id: string) => `Kernel does not exist: ${id}`
);

/** A session was to be given a kernel that does not exist. 400 is what Jupyter's clients expect. */
export const KernelChoiceError = errorWith('kernel_choice_invalid', (id: string) => `No such kernel: ${id}`);

export const KernelExistsError = errorWith(
  'kernel_exists',
  (id: string) => `A kernel already has the id ${id}; choose another id, or use that kernel.`
);

/** What is wrong is said where it was found; nothing secret is in it. */
export const LessonsUnavailableError = errorWith('lessons_not_written', why);

/** The same code as that of `tpulab env`. */
export const EnvironmentUnknownError = errorWith(
  'env_unknown',
  (name: string) => `There is no environment "${name}"; "tpulab env list" lists the available ones.`
);

/** A kernel was asked for by a kernelspec name that is not known. 501 is what Jupyter's clients expect. */
export class KernelSpecUnknownError extends BridgeError {
  readonly shortMessage: string;
  constructor(name: string, names: readonly string[]) {
    const there =
      names.length === 0
        ? 'there is none ("tpulab env create jax" makes one)'
        : `there are ${names.join(', ')}`;
    super(
      'kernelspec_unknown',
      `The kernelspec "${name}" does not exist here; ${there}. Choose another, or install it and try again.`
    );
    this.shortMessage = `${name} not found`;
  }
}

export const KernelSpecNotFoundError = errorWith(
  'kernelspec_not_found',
  (name: string) => `Kernelspec does not exist: ${name}`
);

export const ResourceNotFoundError = errorWith(
  'resource_not_found',
  (spec: string, file: string) => `The kernelspec "${spec}" has no file ${JSON.stringify(file)}.`
);

export const KernelStartError = errorWith('kernel_start_failed', own);

export const KernelRestartingError = errorWith(
  'kernel_restarting',
  (id: string) => `Kernel ${id} is being restarted, so nothing runs in it.`
);

export const KernelActionError = errorWith('kernel_action_failed', own);

/** Nothing in the kernel takes commands for runs: it has no run, no agent, or is starting. */
export const ControlUnavailableError = errorWith('control_unavailable', own);

/** A command was passed on and not answered. Sending it again with the same id is safe. */
export const ControlUnansweredError = errorWith('control_unanswered', own);

/** The journal of a kernel cannot be read, as a whole or by this version. The kernel itself may be well. */
export const JournalUnreadableError = errorWith(
  'journal_unreadable',
  (kernelId: string, cause: unknown) => `The journal of kernel ${kernelId} cannot be read: ${why(cause)}`
);

export const RunNotFoundError = errorWith(
  'run_not_found',
  (key: string) => `No run is stored as ${JSON.stringify(key)}; GET /bridge/v1/runs lists the stored runs.`
);

export const SessionNotFoundError = errorWith(
  'session_not_found',
  (id: string) => `Session does not exist: ${id}`
);

export const SessionGoneError = errorWith(
  'session_gone',
  (id: string) => `The kernel of session ${id} was already shut down; there is nothing left to delete.`
);

export const HolderNotFoundError = errorWith(
  'holder_not_found',
  (pid: number) => `Process ${pid} does not hold a chip now; run "tpulab ps" again.`
);

/** The gateway ends its own kernels only. */
export const HolderNotOursError = errorWith('holder_not_ours', own);

/** The lock file of libtpu stays: somebody has it, or may have it, or it is another user's. */
export const LockNotRemovableError = errorWith('lock_not_removable', own);

export const RemoteNotFoundError = errorWith(
  'remote_not_found',
  (name: string) =>
    `There is no machine named "${name}"; add it with "tpulab connect", or see "tpulab machine ls".`
);

export const RemoteExistsError = errorWith(
  'remote_exists',
  (name: string) => `A machine named "${name}" already exists; remove it first, or choose another name.`
);

export const RemotePromptGoneError = errorWith(
  'remote_prompt_gone',
  (name: string) => `The machine "${name}" no longer waits for this answer; check what it asks now.`
);

/** The machine cannot be reached at the moment. 503, so that clients keep what they know of its kernels and come back. */
export const RemoteUnavailableError = errorWith(
  'remote_unavailable',
  (name: string, reason: string) => `The machine "${name}" cannot be reached now: ${reason}`
);

/** The machine answers, and not as a gateway of ours does: the answer is not passed on. */
export const RemoteBadAnswerError = errorWith(
  'remote_bad_answer',
  (name: string, reason: string) =>
    `The server of the machine "${name}" gave an answer that is refused: ${reason}.`
);

export const RemoteActionError = errorWith('remote_action_failed', own);

export const InternalError = errorWith(
  'internal',
  () => 'The server failed to answer this request; its log (gateway.log in the state folder) says why.'
);
