/** Why a remote is not reachable: one stable code for each possible reaction of a person. */
import type { RemoteAction, RemoteError, RemoteQueue } from '@tpulab/protocol';
import { CodedError } from '@tpulab/platform/errors.js';
import { type Cause, matchCause } from '@tpulab/platform/known-causes.js';
import { plainText } from '@tpulab/platform/plain-text.js';

/** Whether a retry without a person may help. */
type Recovery = 'person' | 'again';

const RECOVERIES = {
  remote_ssh_missing: 'person',
  remote_destination_invalid: 'person',
  remote_name_unknown: 'again',
  remote_unreachable: 'again',
  remote_auth_refused: 'person',
  remote_host_key_unknown: 'person',
  remote_host_key_changed: 'person',
  remote_question_unanswered: 'person',
  remote_ssh_failed: 'again',
  remote_lost: 'again',
  remote_timeout: 'again',
  remote_interrupted: 'again',
  remote_held_back: 'person',
  remote_forward_failed: 'again',
  remote_command_refused: 'person',
  remote_upload_failed: 'again',
  remote_bridge_missing: 'person',
  remote_bridge_failed: 'again',
  remote_disk_full: 'person',
  remote_machine_stopped: 'person',
  remote_preempted: 'person',
  remote_queued: 'again',
  remote_no_address: 'person',
  remote_iap_blocked: 'again',
  remote_slice_incomplete: 'again',
  sync_bad_folder: 'person',
  sync_running: 'person',
  sync_failed: 'person',
  gcloud_missing: 'person',
  gcloud_alpha_missing: 'person',
  gcloud_login: 'person',
  gcloud_project: 'person',
  gcloud_not_found: 'person',
  gcloud_api_disabled: 'person',
  gcloud_permission: 'person',
  gcloud_failed: 'again',
  gcloud_offline: 'again',
  gcloud_unreadable: 'person',
  colab_missing: 'person',
  colab_outdated: 'person',
  colab_login: 'person',
  colab_offline: 'again',
  colab_failed: 'again',
  colab_declined: 'person',
  colab_no_capacity: 'person',
  colab_not_entitled: 'person',
  colab_not_assigned: 'person',
  colab_unavailable: 'again',
  colab_unrecorded: 'person',
  colab_busy: 'again',
  colab_taken: 'person',
  colab_key_refused: 'person',
  colab_forbidden: 'person',
  colab_runtime_unknown: 'again',
  colab_unreachable: 'again',
  colab_reclaimed: 'person',
  colab_not_stopped: 'person'
} as const satisfies Record<string, Recovery>;

export type RemoteErrorCode = keyof typeof RECOVERIES;

export class RemoteProblem extends CodedError<RemoteErrorCode> {
  /** The terminal command that solves the problem. */
  readonly command: string | null;
  /** The same remedy, if the gateway itself can apply it. */
  readonly action: RemoteAction | null;
  readonly recovery: Recovery;

  constructor(
    code: RemoteErrorCode,
    message: string,
    options: {
      readonly command?: string | undefined;
      readonly action?: RemoteAction | undefined;
      /** Overrides the recovery of the code. */
      readonly recovery?: Recovery | undefined;
      readonly cause?: unknown;
    } = {}
  ) {
    super(code, message, options);
    this.command = options.command ?? null;
    this.action = options.action ?? null;
    this.recovery = options.recovery ?? RECOVERIES[code];
  }
}

/** null: the table contains no cause for these lines. */
export function explained<Facts>(
  table: readonly Cause<RemoteErrorCode, Facts>[],
  lines: readonly string[],
  facts: Facts
): RemoteProblem | null {
  const cause = matchCause(table, lines, facts);
  return cause && new RemoteProblem(cause.code, cause.message, cause);
}

/** The cloud has promised the machine but not provisioned it yet, which may take hours. */
export class RemoteQueued extends RemoteProblem {
  constructor(
    message: string,
    readonly queue: RemoteQueue
  ) {
    super('remote_queued', message);
  }
}

const CLOUD_UNREACHABLE: ReadonlySet<RemoteErrorCode> = new Set([
  'gcloud_login',
  'gcloud_offline',
  'gcloud_failed',
  'gcloud_missing',
  'gcloud_alpha_missing',
  'gcloud_permission',
  'gcloud_api_disabled',
  'gcloud_unreadable'
]);

/** Whether Google Cloud cannot be queried now, or not by this account: the machine may still run at its old address. */
export function isCloudSilent(error: unknown): error is RemoteProblem {
  return error instanceof RemoteProblem && CLOUD_UNREACHABLE.has(error.code);
}

/** Temporary errors of a setup: another laptop is setting up the host, or a network is down. */
const TRANSIENT = new Set([
  'setup_busy',
  'setup_download_failed',
  'setup_gateway_failed',
  'setup_host_garbled'
]);

export function recoveryOf(error: unknown): Recovery {
  if (error instanceof RemoteProblem) return error.recovery;
  return TRANSIENT.has(String((error as { code?: unknown } | null)?.code)) ? 'again' : 'person';
}

/** The error as people and programs see it. */
export function remoteErrorOf(error: unknown): RemoteError {
  if (!(error instanceof Error))
    return { code: 'internal', message: plainText(String(error)), command: null };
  const { code, command } = error as Error & { code?: unknown; command?: unknown };
  const action = error instanceof RemoteProblem ? error.action : null;
  const isOurs = typeof code === 'string' && /^[a-z][a-z_]+$/.test(code);
  const message = plainText(error.message);
  return {
    code: isOurs ? code : 'internal',
    message: isOurs ? message : `An unexpected error occurred (${message}); see the log.`,
    // A command with a line end would become two commands when it is pasted.
    command: typeof command === 'string' && command === plainText(command) ? command : null,
    ...(action === null ? {} : { action })
  };
}
