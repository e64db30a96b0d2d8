/** What a client is told when a command for a run came to nothing before an agent could answer it. */
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import {
  type BridgeError,
  ControlUnansweredError,
  ControlUnavailableError,
  KernelActionError
} from '../http/errors.js';

export function controlError(kernelId: string, error: unknown): BridgeError {
  if (error instanceof KernelActionError) return error;
  const detail = error instanceof Error ? error.message : String(error);
  const code = error instanceof KeeperError ? error.code : null;
  switch (code) {
    case 'control_unavailable':
      return new ControlUnavailableError(detail, error);
    case 'control_unanswered':
    case 'keeper_timeout':
    case 'keeper_disconnected':
      return new ControlUnansweredError(detail, error);
    default:
      return new KernelActionError(`Could not control kernel ${kernelId}: ${detail}`, error);
  }
}
