/**
 * Every stable code of the bridge, with its entry in docs/errors.md: the HTTP status, or the place where it appears. Each
 * part declares its own codes; a code that is missing here, or that no part declares, does not compile.
 */
import type { CommandErrorCode } from '../output.js';
import type { EnvironmentErrorCode } from '../../../../machines/src/environments/index.js';
import type { JournalErrorCode } from '../../journal/index.js';
import { BRIDGE_ERRORS, type BridgeErrorCode, type ServeErrorCode } from '@tpulab/platform/errors.js';
import type { RefusalCode } from '../../channels/refusal.js';
import type { DeviceErrorCode, RemoteErrorCode } from '@tpulab/machines';
import type { SetupErrorCode } from '../../../../machines/src/setup/stage-reporter.js';
import type { WireErrorCode } from '../../jupyter/index.js';
import type { ZmtpErrorCode } from '../../jupyter/zmtp/index.js';
import type { ConfigErrorCode } from '../../config/config-file.js';
import type { TokenErrorCode } from '../../http/token-store.js';
import type { KeeperErrorCode } from '../../keeper-protocol/keeper-error.js';

/** A keeper's `kernel_start_failed` reaches clients under the same name. */
type OtherCode = Exclude<
  | ServeErrorCode
  | CommandErrorCode
  | ConfigErrorCode
  | TokenErrorCode
  | DeviceErrorCode
  | EnvironmentErrorCode
  | KeeperErrorCode
  | JournalErrorCode
  | RefusalCode
  | RemoteErrorCode
  | SetupErrorCode
  | WireErrorCode
  | ZmtpErrorCode,
  BridgeErrorCode
>;

const OTHER_ERRORS: Readonly<Record<OtherCode, 'command' | 'log' | 'reply' | 'close 1007' | 'remote'>> = {
  state_dir_in_use: 'command',
  state_dir_unusable: 'command',
  token_unusable: 'command',
  address_in_use: 'command',
  address_unusable: 'command',
  root_dir_missing: 'command',
  socket_unusable: 'command',
  token_name_invalid: 'command',
  token_name_taken: 'command',
  token_unknown: 'command',
  token_expiry_invalid: 'command',
  token_rights_invalid: 'command',
  tokens_unreadable: 'command',
  tokens_busy: 'command',
  tokens_too_many: 'command',
  config_unreadable: 'command',
  config_unknown_setting: 'command',
  config_invalid: 'command',
  control_refused: 'command',
  no_gateway: 'command',
  several_gateways: 'command',
  lessons_missing: 'command',
  gateway_unresponsive: 'command',
  gateway_not_stopped: 'command',
  kernel_unknown: 'command',
  kernel_ambiguous: 'command',
  cell_unknown: 'command',
  mirror_unknown: 'command',
  notebook_unusable: 'command',
  notebook_changed: 'command',
  notebook_not_written: 'command',
  journal_faulty: 'command',
  journal_in_use: 'command',
  journal_not_repaired: 'command',
  export_not_written: 'command',
  remote_target_invalid: 'command',
  not_confirmed: 'command',
  ssh_not_started: 'command',
  run_in_progress: 'command',
  run_unknown: 'command',
  run_not_started: 'command',
  notebook_failed: 'command',
  chip_table_unusable: 'command',
  env_definition_invalid: 'command',
  env_definitions_missing: 'command',
  env_not_created: 'command',
  env_in_use: 'command',
  env_uv_missing: 'command',
  env_agent_missing: 'command',
  env_recipes_missing: 'command',
  env_python: 'command',
  env_network: 'command',
  env_disk_full: 'command',
  env_permission: 'command',
  env_package_refused: 'command',
  env_build_failed: 'command',
  env_check_failed: 'command',
  env_interrupted: 'command',
  env_added_packages: 'command',
  env_not_usable: 'command',
  env_compiler_unsupported: 'command',
  remote_ssh_missing: 'remote',
  remote_destination_invalid: 'remote',
  remote_name_unknown: 'remote',
  remote_unreachable: 'remote',
  remote_auth_refused: 'remote',
  remote_host_key_unknown: 'remote',
  remote_host_key_changed: 'remote',
  remote_question_unanswered: 'remote',
  remote_ssh_failed: 'remote',
  remote_lost: 'remote',
  remote_timeout: 'remote',
  remote_interrupted: 'remote',
  remote_held_back: 'remote',
  remote_forward_failed: 'remote',
  remote_command_refused: 'remote',
  remote_upload_failed: 'remote',
  remote_bridge_missing: 'remote',
  remote_bridge_failed: 'remote',
  remote_disk_full: 'remote',
  remote_machine_stopped: 'remote',
  remote_preempted: 'remote',
  remote_queued: 'remote',
  remote_no_address: 'remote',
  remote_iap_blocked: 'remote',
  remote_slice_incomplete: 'remote',
  sync_bad_folder: 'remote',
  sync_running: 'remote',
  sync_failed: 'remote',
  gcloud_missing: 'remote',
  gcloud_alpha_missing: 'remote',
  gcloud_login: 'remote',
  gcloud_project: 'remote',
  gcloud_not_found: 'remote',
  gcloud_api_disabled: 'remote',
  gcloud_permission: 'remote',
  gcloud_failed: 'remote',
  gcloud_offline: 'remote',
  gcloud_unreadable: 'remote',
  colab_missing: 'remote',
  colab_outdated: 'remote',
  colab_login: 'remote',
  colab_offline: 'remote',
  colab_failed: 'remote',
  colab_declined: 'remote',
  colab_no_capacity: 'remote',
  colab_not_entitled: 'remote',
  colab_not_assigned: 'remote',
  colab_unavailable: 'remote',
  colab_unrecorded: 'remote',
  colab_busy: 'remote',
  colab_taken: 'remote',
  colab_key_refused: 'remote',
  colab_forbidden: 'remote',
  colab_runtime_unknown: 'remote',
  colab_unreachable: 'remote',
  colab_reclaimed: 'remote',
  colab_not_stopped: 'remote',
  setup_payload_missing: 'remote',
  setup_host_unfit: 'remote',
  setup_host_garbled: 'remote',
  setup_uv_missing: 'remote',
  setup_download_failed: 'remote',
  setup_checksum_wrong: 'remote',
  setup_unpack_failed: 'remote',
  setup_python_failed: 'remote',
  setup_environment_failed: 'remote',
  setup_gateway_failed: 'remote',
  setup_other_build: 'remote',
  setup_busy: 'remote',
  setup_clean_failed: 'remote',
  keeper_gone: 'log',
  keeper_disconnected: 'log',
  keeper_start_failed: 'log',
  keeper_exists: 'log',
  keeper_elsewhere: 'log',
  keeper_timeout: 'log',
  keeper_protocol: 'log',
  keeper_stopping: 'log',
  launch_invalid: 'log',
  socket_path_too_long: 'log',
  kernel_dead: 'log',
  kernel_start_timeout: 'log',
  kernel_interrupt_failed: 'log',
  kernel_unkillable: 'log',
  journal_closed: 'log',
  journal_damaged: 'log',
  journal_trimmed: 'log',
  journal_version: 'log',
  journal_write_failed: 'log',
  journal_disk_full: 'log',
  debugger_taken: 'reply',
  requests_held: 'reply',
  input_taken: 'log',
  frame_malformed: 'close 1007',
  frame_too_large: 'close 1007',
  channel_unknown: 'close 1007',
  header_invalid: 'close 1007',
  signature_invalid: 'log',
  scheme_unsupported: 'log',
  zmtp_endpoint_invalid: 'log',
  zmtp_peer_unsupported: 'log',
  zmtp_frame_malformed: 'log'
};

type ErrorCode = BridgeErrorCode | OtherCode;

/** For each code, the place where it appears: an HTTP status, `command`, `log`, `reply`, or a close code of a WebSocket. */
export const ERROR_TABLE: ReadonlyMap<ErrorCode, string> = new Map<ErrorCode, string>([
  ...(Object.entries(BRIDGE_ERRORS) as [BridgeErrorCode, readonly [number, unknown]][]).map(
    ([code, [status]]): [BridgeErrorCode, string] => [code, String(status)]
  ),
  ...(Object.entries(OTHER_ERRORS) as [OtherCode, string][])
]);
