/** Why a command that talks to a running gateway, or its arguments, failed. */
import { CodedError } from '../platform/coded-error.js';

export type CommandErrorCode =
  | 'no_gateway'
  | 'several_gateways'
  | 'gateway_unresponsive'
  | 'gateway_not_stopped'
  | 'kernel_unknown'
  | 'kernel_ambiguous'
  | 'cell_unknown'
  | 'mirror_unknown'
  | 'notebook_unusable'
  | 'notebook_changed'
  | 'notebook_not_written'
  | 'journal_faulty'
  | 'journal_in_use'
  | 'journal_not_repaired'
  | 'export_not_written'
  | 'remote_target_invalid'
  | 'not_confirmed'
  | 'ssh_not_started'
  | 'run_in_progress'
  | 'run_unknown'
  | 'run_not_started'
  | 'notebook_failed';

export class CommandError extends CodedError<CommandErrorCode> {}
