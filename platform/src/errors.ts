/** Errors with a code: the base class, the errors for clients of the gateway, and reasons why a gateway does not start. */
import { STATUS_CODES } from 'node:http';
import type { FullDisk } from './full-disk.js';

/** An error with a stable code for programs, and a message for users: a sentence with a remedy. */
export class CodedError<Code extends string> extends Error {
  /** `cause` is the system's error, if there is one. */
  constructor(
    readonly code: Code,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
  }
}

/** The other end refuses the handshake, with this status. */
export class HandshakeRefused extends Error {
  override readonly name = 'HandshakeRefused';
  constructor(readonly status: number) {
    super(`it answers ${status}`);
  }
}

const shown = (path: string): string => JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}…` : path);
const own = (message: string): string => message;
const why = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** By code: the HTTP status, and the message from its arguments. docs/error-codes.md lists the same, and a test keeps both equal. */
export const BRIDGE_ERRORS = {
  unauthorized: [403, () => 'This request has no valid token; send the header "Authorization: token TOKEN".'],
  /** The token only allows reading a notebook, and this is another action. */
  read_only: [403, () => 'This link can only read one notebook; ask its owner for a token with more rights.'],
  not_permitted: [
    403,
    (level: string) =>
      `A token that may ${level} may not do this, or not here; ask its owner for one with more rights ("tpulab token add").`
  ],
  host_refused: [
    403,
    (host: string) =>
      `The Host header ${JSON.stringify(host)} does not name this server; use the URL it printed.`
  ],
  origin_refused: [
    403,
    (origin: string) => {
      const flag = /^https?:\/\/[\w.:[\]-]+$/.test(origin) ? `--allow-origin ${origin}` : '--allow-origin';
      return `Pages of ${JSON.stringify(origin)} may not use this server, even with a valid token; start it with ${flag} to allow them.`;
    }
  ],
  /** Wrong tokens arrive so fast that they are no longer logged individually. A valid one is always accepted. */
  too_many_attempts: [
    429,
    (retryAfterS: number) =>
      `Too many requests without a valid token came from this address; wait ${retryAfterS} s.`
  ],
  too_many_sockets: [
    503,
    (limit: number) => `${limit} WebSockets are open, the maximum; close some, or raise Bridge.max_sockets.`
  ],
  not_ready: [
    503,
    (what?: string) => what ?? 'The server is still looking for its kernels; try again in a moment.'
  ],
  route_not_found: [
    404,
    (method: string, path: string) =>
      `The server has no ${method} ${path}; GET /bridge/v1/openapi.json describes what it has.`
  ],
  method_not_allowed: [
    405,
    (method: string, path: string, allowed: readonly string[]) =>
      `${path} does not take ${method}; it takes ${allowed.join(', ')}.`
  ],
  upgrade_required: [
    426,
    (path: string) => `${path} is a WebSocket; connect to it with ws:// instead of fetching it.`
  ],
  invalid_request: [400, own],
  payload_too_large: [413, (limitBytes: number) => `The body is larger than ${limitBytes} bytes; send less.`],
  headers_too_large: [
    431,
    (limitBytes: number) =>
      `The headers or the URL of this request are larger than ${limitBytes} bytes; send less.`
  ],
  request_timeout: [408, () => 'The request did not arrive in time; send it again.'],
  kernel_not_found: [404, (id: string) => `Kernel does not exist: ${id}`],
  /** A session was to use a kernel that does not exist. 400 is what Jupyter's clients expect. */
  kernel_choice_invalid: [400, (id: string) => `No such kernel: ${id}`],
  kernel_exists: [
    409,
    (id: string) => `A kernel already has the id ${id}; choose another id, or use that kernel.`
  ],
  /** A kernel was requested by an unknown kernelspec name. 501 is what Jupyter's clients expect. */
  kernelspec_unknown: [
    501,
    (name: string, names: readonly string[]) => {
      const there =
        names.length === 0
          ? 'there is none ("tpulab env create jax" makes one)'
          : `there are ${names.join(', ')}`;
      return `The kernelspec "${name}" does not exist here; ${there}. Choose another, or install it and try again.`;
    }
  ],
  kernelspec_not_found: [404, (name: string) => `Kernelspec does not exist: ${name}`],
  /** The same code as in `tpulab env`. */
  env_unknown: [
    404,
    (name: string) => `There is no environment "${name}"; "tpulab env list" lists the available ones.`
  ],
  resource_not_found: [
    404,
    (spec: string, file: string) => `The kernelspec "${spec}" has no file ${JSON.stringify(file)}.`
  ],
  kernel_start_failed: [500, own],
  kernel_action_failed: [500, own],
  kernel_restarting: [409, (id: string) => `Kernel ${id} is being restarted, so nothing runs in it.`],
  /** Nothing in the kernel accepts commands for runs: it has no run, no agent, or is starting. */
  control_unavailable: [409, own],
  /** A command was forwarded and not answered. Sending it again with the same id is safe. */
  control_unanswered: [504, own],
  /** The journal of a kernel cannot be read, as a whole or by this version. The kernel itself may be unaffected. */
  journal_unreadable: [
    500,
    (kernelId: string, cause: unknown) => `The journal of kernel ${kernelId} cannot be read: ${why(cause)}`
  ],
  session_not_found: [404, (id: string) => `Session does not exist: ${id}`],
  session_gone: [
    410,
    (id: string) => `The kernel of session ${id} was already shut down; there is nothing left to delete.`
  ],
  run_not_found: [
    404,
    (key: string) => `No run is stored as ${JSON.stringify(key)}; GET /bridge/v1/runs lists the stored runs.`
  ],
  holder_not_found: [404, (pid: number) => `Process ${pid} does not hold a chip now; run "tpulab ps" again.`],
  /** The gateway ends its own kernels only. */
  holder_not_ours: [409, own],
  /** The lock file of libtpu stays: a process has locked it, or may have, or it belongs to another user. */
  lock_not_removable: [409, own],
  remote_not_found: [
    404,
    (name: string) =>
      `There is no machine named "${name}"; add it with "tpulab connect", or see "tpulab machine ls".`
  ],
  remote_exists: [
    409,
    (name: string) => `A machine named "${name}" already exists; remove it first, or choose another name.`
  ],
  remote_prompt_gone: [
    409,
    (name: string) => `The machine "${name}" no longer waits for this answer; check what it asks now.`
  ],
  /** The machine cannot be reached at the moment. 503, so that clients keep their data on its kernels and reconnect. */
  remote_unavailable: [
    503,
    (name: string, reason: string) => `The machine "${name}" cannot be reached now: ${reason}`
  ],
  /** The machine answers, but not as a TPULab gateway: the answer is not forwarded. */
  remote_bad_answer: [
    502,
    (name: string, reason: string) =>
      `The server of the machine "${name}" gave an answer that is refused: ${reason}.`
  ],
  remote_action_failed: [500, own],
  /** The cause is described where it was found; it contains nothing secret. */
  lessons_not_written: [500, why],
  /** Each check uses all cores and gigabytes of memory, so one runs at a time. */
  check_busy: [
    409,
    (path: string) => `${shown(path)} is being checked now; wait until that check ends, or stop it.`
  ],
  check_failed: [500, own],
  file_path_invalid: [
    400,
    (path: string, why: string) => `The path ${shown(path)} ${why}; name a file below the root folder.`
  ],
  file_not_found: [404, (path: string) => `There is no ${shown(path)} below the root folder.`],
  file_exists: [409, (path: string) => `${shown(path)} exists already; choose another name.`],
  /** It is a folder where a file was requested, or the other way round, or neither. */
  file_wrong_kind: [409, (path: string, wanted: 'file' | 'folder') => `${shown(path)} is not a ${wanted}.`],
  /** Another program has written it since the version that the client knows. */
  file_changed: [
    412,
    (path: string) =>
      `${shown(path)} has changed since it was read; read it again, or save under another name.`
  ],
  file_version_missing: [
    428,
    (path: string) =>
      `${shown(path)} exists; send its version in If-Match to replace it, or If-None-Match: * to create a file.`
  ],
  file_too_large: [
    413,
    (path: string, limitBytes: number) =>
      `${shown(path)} is larger than ${limitBytes / 2 ** 20} MiB, the size limit here.`
  ],
  file_read_only: [
    403,
    (path: string, isOthers: boolean) =>
      `${shown(path)} is read-only${isOthers ? ' and belongs to another user on this computer' : ''}.`
  ],
  file_denied: [403, (path: string) => `The permissions of ${shown(path)} or of its folder forbid that.`],
  file_storage_full: [
    507,
    (path: string, full: FullDisk) =>
      `${shown(path)} was not written, because ${full.why}; its old content is unchanged. To save it, ${full.remedy}.`
  ],
  file_action_failed: [
    500,
    (path: string, cause: unknown) => {
      const { code = 'unknown error' } = cause as NodeJS.ErrnoException;
      return `${shown(path)} could not be read or written (${code}).`;
    }
  ],
  share_not_made: [409, (why: string) => `The link was not created: ${why}`],
  share_not_found: [404, (name: string) => `There is no link "${name}"; it may have been revoked already.`],
  session_page_missing: [
    404,
    () => 'The session page is not part of this installation; in a checkout, `npm run build` makes it.'
  ],
  docs_missing: [
    404,
    () =>
      'This page of the documentation is not part of this installation; in a checkout, `npm run docs` builds it.'
  ],
  internal: [
    500,
    () => 'The server failed to answer this request; its log (gateway.log in the state folder) says why.'
  ]
} as const satisfies Record<string, readonly [status: number, text: (...about: never[]) => string]>;

export type BridgeErrorCode = keyof typeof BRIDGE_ERRORS;
type About<Code extends BridgeErrorCode> = Parameters<(typeof BRIDGE_ERRORS)[Code][1]>;

/** An error that a client of the gateway sees. The code is stable and meant for programs. */
export class BridgeError extends CodedError<BridgeErrorCode> {
  override readonly name = 'BridgeError';

  /** @param about the arguments of the message */
  constructor(
    code: BridgeErrorCode,
    message: string,
    readonly about: readonly unknown[],
    options?: ErrorOptions
  ) {
    super(code, message, options);
  }

  /** HTTP status of an answer that carries this error. */
  get status(): number {
    return BRIDGE_ERRORS[this.code][0];
  }

  /** A short text for users, as in Jupyter's answers. */
  get reason(): string | null {
    return STATUS_CODES[this.status] ?? null;
  }
}

/** `about` are the arguments of the message; a further argument, or an error among them, is the cause. */
export function bridgeError<Code extends BridgeErrorCode>(
  code: Code,
  ...about: [...About<Code>, cause?: unknown]
): BridgeError {
  const text = BRIDGE_ERRORS[code][1] as (...about: readonly unknown[]) => string;
  const cause = about[text.length] ?? about.find(each => each instanceof Error);
  return new BridgeError(code, text(...about), about, { cause });
}

export function isBridgeError(error: unknown, code: BridgeErrorCode): error is BridgeError {
  return error instanceof BridgeError && error.code === code;
}

export type ServeErrorCode =
  | 'state_dir_in_use'
  | 'state_dir_unusable'
  | 'token_unusable'
  | 'address_in_use'
  | 'address_unusable'
  | 'root_dir_missing'
  | 'socket_unusable';

/** Why a gateway does not start. Shown by the command line, never sent over HTTP. */
export class ServeError extends CodedError<ServeErrorCode> {}
