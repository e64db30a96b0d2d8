/**
 * With which code a channels socket is closed. JupyterLab gives up for good at 1000 and 1001, so these are for
 * kernels that no longer exist; after any other code clients come back.
 */
export const CLOSE = {
  /** The kernel was shut down. */
  kernelRemoved: { code: 1000, reason: 'the kernel was shut down' },
  /** The client sent something that is not a Jupyter message. */
  malformedFrame: { code: 1007, reason: 'not a Jupyter message' },
  /** A handler of this socket failed; the log says why. */
  failed: { code: 1011, reason: 'internal error of the server' },
  /** The gateway stops; its kernels go on. */
  gatewayStopping: { code: 1012, reason: 'the server is restarting' },
  /** The client takes what it is sent too slowly; it gets everything when it comes back. */
  tooSlow: { code: 1013, reason: 'this client reads too slowly; reconnect to continue' },
  /** Another socket with the same session_id took over. */
  replaced: { code: 4001, reason: 'replaced by a newer connection of this session' }
} as const;

export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE];
