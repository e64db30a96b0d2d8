/** Why a backend cannot be used: one class, a stable code, and a sentence with the remedy. */

export type BackendErrorCode =
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
