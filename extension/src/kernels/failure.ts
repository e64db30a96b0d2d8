/** Failures of the Jupyter server that mean a lost connection. The same three as in Lab's own managers. */
import { ServerConnection } from '@jupyterlab/services';

export function asConnectionFailure(error: unknown): Error | null {
  if (error instanceof ServerConnection.NetworkError) return error;
  if (error instanceof ServerConnection.ResponseError && LOST.has(error.response.status)) return error;
  return null;
}

/** JupyterHub answers 503 (before 2.0) or 424 for a server that is not running. */
const LOST: ReadonlySet<number> = new Set([424, 503]);
