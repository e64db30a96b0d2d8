/** HTTP status by code. docs/errors.md lists the same, and a test keeps both equal. */
export const BRIDGE_ERRORS = {
  unauthorized: 403,
  read_only: 403,
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
  internal: 500
} as const;

export type BridgeErrorCode = keyof typeof BRIDGE_ERRORS;

/**
 * Errors that a client of the gateway sees: one class for each decision that it can take. The code is stable and is
 * what programs look at.
 */
export abstract class BridgeError extends Error {
  abstract readonly code: BridgeErrorCode;
  /** A few words for people, Jupyter's `reason`; null when the message says it all. */
  readonly reason: string | null;

  constructor(message: string, options: { reason?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.reason = options.reason ?? null;
  }

  /** HTTP status of an answer that carries this error. */
  get status(): number {
    return BRIDGE_ERRORS[this.code];
  }
}

export class UnauthorizedError extends BridgeError {
  readonly code = 'unauthorized';
  constructor() {
    super('This request carries no valid token; send the header "Authorization: token TOKEN".', {
      reason: 'Forbidden'
    });
  }
}

/** The token is one for reading a notebook, and this is something else. */
export class ReadOnlyError extends BridgeError {
  readonly code = 'read_only';
  constructor() {
    super(
      'This link may read one notebook and do nothing else; ask its owner for a token that may do more.',
      { reason: 'Forbidden' }
    );
  }
}

export class HostRefusedError extends BridgeError {
  readonly code = 'host_refused';
  constructor(host: string) {
    super(`The Host header ${JSON.stringify(host)} does not name this gateway; use the URL it printed.`, {
      reason: 'Forbidden'
    });
  }
}

export class OriginRefusedError extends BridgeError {
  readonly code = 'origin_refused';
  constructor(origin: string) {
    const flag = /^https?:\/\/[\w.:[\]-]+$/.test(origin) ? `--allow-origin ${origin}` : '--allow-origin';
    super(
      `Pages of ${JSON.stringify(origin)} may not use this gateway, with a valid token either; start it with ${flag} to let them in.`,
      { reason: 'Forbidden' }
    );
  }
}

/** Wrong tokens come so fast that they are no longer looked at one by one in the log. A good one is always let in. */
export class TooManyAttemptsError extends BridgeError {
  readonly code = 'too_many_attempts';
  constructor(readonly retryAfterS: number) {
    super(`Too many requests without a valid token came from this address; wait ${retryAfterS} s.`, {
      reason: 'Too Many Requests'
    });
  }
}

export class TooManySocketsError extends BridgeError {
  readonly code = 'too_many_sockets';
  constructor(limit: number) {
    super(`${limit} WebSockets are open, which is the limit; close some, or raise Bridge.max_sockets.`, {
      reason: 'Service Unavailable'
    });
  }
}

export class NotReadyError extends BridgeError {
  readonly code = 'not_ready';
  constructor(what = 'The gateway is still looking for its kernels; try again in a moment.') {
    super(what, { reason: 'Service Unavailable' });
  }
}

export class RouteNotFoundError extends BridgeError {
  readonly code = 'route_not_found';
  constructor(method: string, path: string) {
    super(`The bridge has no ${method} ${path}; GET /bridge/v1/openapi.json describes what it has.`, {
      reason: 'Not Found'
    });
  }
}

export class MethodNotAllowedError extends BridgeError {
  readonly code = 'method_not_allowed';
  constructor(
    method: string,
    path: string,
    readonly allowed: readonly string[] = []
  ) {
    super(`${path} does not take ${method}; it takes ${allowed.join(', ')}.`, {
      reason: 'Method Not Allowed'
    });
  }
}

export class UpgradeRequiredError extends BridgeError {
  readonly code = 'upgrade_required';
  constructor(path: string) {
    super(`${path} is a WebSocket; connect to it with ws:// instead of fetching it.`, {
      reason: 'Upgrade Required'
    });
  }
}

export class InvalidRequestError extends BridgeError {
  readonly code = 'invalid_request';
  constructor(message: string, cause?: unknown) {
    super(message, { reason: 'Bad Request', cause });
  }
}

export class PayloadTooLargeError extends BridgeError {
  readonly code = 'payload_too_large';
  constructor(limitBytes: number) {
    super(`The body is larger than ${limitBytes} bytes; send less.`, { reason: 'Payload Too Large' });
  }
}

export class HeadersTooLargeError extends BridgeError {
  readonly code = 'headers_too_large';
  constructor(limitBytes: number) {
    super(`The headers or the URL of this request are larger than ${limitBytes} bytes; send less.`, {
      reason: 'Request Header Fields Too Large'
    });
  }
}

export class RequestTimeoutError extends BridgeError {
  readonly code = 'request_timeout';
  constructor() {
    super('The request did not arrive in time; send it again, in one go.', { reason: 'Request Timeout' });
  }
}

export class KernelNotFoundError extends BridgeError {
  readonly code = 'kernel_not_found';
  constructor(id: string) {
    super(`Kernel does not exist: ${id}`, { reason: 'Not Found' });
  }
}

/** A session was to be given a kernel that does not exist. 400 is what Jupyter's clients expect. */
export class KernelChoiceError extends BridgeError {
  readonly code = 'kernel_choice_invalid';
  constructor(id: string) {
    super(`No such kernel: ${id}`, { reason: 'Bad Request' });
  }
}

export class KernelExistsError extends BridgeError {
  readonly code = 'kernel_exists';
  constructor(id: string) {
    super(`There is already a kernel with the id ${id}; choose another id, or use that kernel.`, {
      reason: 'Conflict'
    });
  }
}

/** What is wrong is said where it was found; nothing secret is in it. */
export class LessonsUnavailableError extends BridgeError {
  readonly code = 'lessons_not_written';
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** The same code as that of `tpulab env`. */
export class EnvironmentUnknownError extends BridgeError {
  readonly code = 'env_unknown';
  constructor(name: string) {
    super(`There is no environment "${name}"; "tpulab env list" shows those that can be made.`, {
      reason: 'Not Found'
    });
  }
}

/** A kernel was asked for by a kernelspec name that is not known. 501 is what Jupyter's clients expect. */
export class KernelSpecUnknownError extends BridgeError {
  readonly code = 'kernelspec_unknown';
  readonly shortMessage: string;
  constructor(name: string) {
    super(`The kernelspec "${name}" is not known here; choose another, or install it and try again.`, {
      reason: 'Not Implemented'
    });
    this.shortMessage = `${name} not found`;
  }
}

export class KernelSpecNotFoundError extends BridgeError {
  readonly code = 'kernelspec_not_found';
  constructor(name: string) {
    super(`Kernelspec does not exist: ${name}`, { reason: 'Not Found' });
  }
}

export class ResourceNotFoundError extends BridgeError {
  readonly code = 'resource_not_found';
  constructor(spec: string, file: string) {
    super(`The kernelspec "${spec}" has no file ${JSON.stringify(file)}.`, { reason: 'Not Found' });
  }
}

export class KernelStartError extends BridgeError {
  readonly code = 'kernel_start_failed';
}

export class KernelActionError extends BridgeError {
  readonly code = 'kernel_action_failed';
}

/** Nothing in the kernel takes commands for runs: it has no run, no agent, or is starting. */
export class ControlUnavailableError extends BridgeError {
  readonly code = 'control_unavailable';
}

/** A command was passed on and not answered. Sending it again with the same id is safe. */
export class ControlUnansweredError extends BridgeError {
  readonly code = 'control_unanswered';
}

/** The journal of a kernel cannot be read, as a whole or by this version. The kernel itself may be well. */
export class JournalUnreadableError extends BridgeError {
  readonly code = 'journal_unreadable';
  constructor(kernelId: string, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`The journal of kernel ${kernelId} cannot be read: ${why}`, { cause });
  }
}

export class RunNotFoundError extends BridgeError {
  readonly code = 'run_not_found';
  constructor(key: string) {
    super(`No run is kept as ${JSON.stringify(key)}; GET /bridge/v1/runs lists those that are.`, {
      reason: 'Not Found'
    });
  }
}

export class SessionNotFoundError extends BridgeError {
  readonly code = 'session_not_found';
  constructor(id: string) {
    super(`Session does not exist: ${id}`, { reason: 'Not Found' });
  }
}

export class SessionGoneError extends BridgeError {
  readonly code = 'session_gone';
  constructor(id: string) {
    super(`The kernel of session ${id} was shut down before the session; there is nothing left to delete.`, {
      reason: 'Gone'
    });
  }
}

export class HolderNotFoundError extends BridgeError {
  readonly code = 'holder_not_found';
  constructor(pid: number) {
    super(`Process ${pid} holds no chip now; look again at who does.`, { reason: 'Not Found' });
  }
}

/** The gateway ends its own kernels only. */
export class HolderNotOursError extends BridgeError {
  readonly code = 'holder_not_ours';
}

/** The lock file of libtpu stays: somebody has it, or may have it, or it is another user's. */
export class LockNotRemovableError extends BridgeError {
  readonly code = 'lock_not_removable';
}

export class RemoteNotFoundError extends BridgeError {
  readonly code = 'remote_not_found';
  constructor(name: string) {
    super(`There is no remote named "${name}"; add it with "tpulab connect", or see "tpulab remote ls".`, {
      reason: 'Not Found'
    });
  }
}

export class RemoteExistsError extends BridgeError {
  readonly code = 'remote_exists';
  constructor(name: string) {
    super(`There is a remote named "${name}" already; remove it first, or choose another name.`, {
      reason: 'Conflict'
    });
  }
}

export class RemotePromptGoneError extends BridgeError {
  readonly code = 'remote_prompt_gone';
  constructor(name: string) {
    super(`The remote "${name}" does not wait for this answer; look again at what it asks, if anything.`, {
      reason: 'Conflict'
    });
  }
}

/** The machine cannot be reached at the moment. 503, so that clients keep what they know of its kernels and come back. */
export class RemoteUnavailableError extends BridgeError {
  readonly code = 'remote_unavailable';
  constructor(name: string, why: string) {
    super(`The remote "${name}" cannot be reached now: ${why}`, { reason: 'Service Unavailable' });
  }
}

export class RemoteActionError extends BridgeError {
  readonly code = 'remote_action_failed';
}

export class InternalError extends BridgeError {
  readonly code = 'internal';
  constructor(cause: unknown) {
    super('The gateway failed to answer this request; its log (gateway.log in the state folder) says why.', {
      reason: 'Internal Server Error',
      cause
    });
  }
}
