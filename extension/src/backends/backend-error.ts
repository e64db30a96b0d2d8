/** Why a backend cannot be used: one class, a stable code, and a sentence with the remedy. */
import { type Place, remoteOfPlace } from './spec-names.js';

type BackendErrorCode =
  | 'bridge.noServerExtension'
  | 'bridge.addressUnreachable'
  | 'bridge.starting'
  | 'bridge.failed'
  | 'bridge.unreachable'
  | 'bridge.timeout'
  | 'bridge.unauthorized'
  | 'bridge.notABridge'
  | 'bridge.protocol'
  | 'bridge.notReady'
  | 'bridge.disabled'
  | 'jupyter.none'
  | 'jupyter.unreachable'
  | 'jupyter.timeout'
  | 'remote.down'
  | 'remote.preempted'
  | 'remote.unknown'
  | 'session.unknown';

export class BackendError extends Error {
  constructor(
    readonly code: BackendErrorCode,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
    this.name = 'BackendError';
  }
}

/** For a remote that was removed, and for the Jupyter server in a page that has none. */
export function unknownPlace(place: Place): BackendError {
  const name = remoteOfPlace(place);
  return name === null
    ? new BackendError('jupyter.none', 'This page has no Jupyter server; choose another kernel.')
    : new BackendError('remote.unknown', `There is no machine "${name}"; add it, or choose another kernel.`);
}
