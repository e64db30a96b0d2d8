/** Why a remote is not reachable: one stable code for each thing that a person can do about it. */
import type { RemoteError } from '@tpulab/protocol';

/** Whether trying again without a person may help. */
export type Outlook = 'person' | 'again';

const OUTLOOKS = {
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
  remote_forward_failed: 'again',
  remote_upload_failed: 'again',
  remote_bridge_missing: 'person',
  remote_bridge_failed: 'again',
  remote_disk_full: 'person',
  remote_machine_stopped: 'person',
  remote_preempted: 'person',
  sync_no_rsync: 'person',
  sync_bad_folder: 'person',
  sync_running: 'person',
  sync_failed: 'person',
  gcloud_missing: 'person',
  gcloud_login: 'person',
  gcloud_project: 'person',
  gcloud_not_found: 'person',
  gcloud_api_disabled: 'person',
  gcloud_permission: 'person',
  gcloud_failed: 'again',
  gcloud_unreadable: 'person'
} as const satisfies Record<string, Outlook>;

export type RemoteErrorCode = keyof typeof OUTLOOKS;

export class RemoteProblem extends Error {
  override readonly name = 'RemoteProblem';
  /** What settles it when it is typed into a terminal. */
  readonly command: string | null;

  constructor(
    readonly code: RemoteErrorCode,
    message: string,
    options: { readonly command?: string; readonly cause?: unknown } = {}
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.command = options.command ?? null;
  }
}

/** Of the errors of the setup, those that can pass by themselves: another laptop is at it, or a network is away. */
const PASSING = new Set([
  'setup_busy',
  'setup_download_failed',
  'setup_gateway_failed',
  'setup_host_garbled'
]);

export function outlookOf(error: unknown): Outlook {
  if (error instanceof RemoteProblem) return OUTLOOKS[error.code];
  return PASSING.has(String((error as { code?: unknown } | null)?.code)) ? 'again' : 'person';
}

/** As people and programs see it. */
export function told(error: unknown): RemoteError {
  if (!(error instanceof Error)) return { code: 'internal', message: String(error), command: null };
  const { code, command } = error as Error & { code?: unknown; command?: unknown };
  const isOurs = typeof code === 'string' && /^[a-z][a-z_]+$/.test(code);
  return {
    code: isOurs ? code : 'internal',
    message: isOurs ? error.message : `Something unforeseen happened (${error.message}); the log has more.`,
    command: typeof command === 'string' ? command : null
  };
}
