/** Waits for what a kernel connection says; each ends with the signal that is given. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import type { ChannelLink } from '../backends/channel-link.js';

/** Resolves when `test` is true, looked at now and whenever one of `signals` is emitted. Rejects when `abort` does. */
export function whenever(
  signals: readonly ISignal<unknown, unknown>[],
  test: () => boolean,
  abort: AbortSignal
): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (done: () => void): void => {
      signals.forEach(signal => signal.disconnect(look));
      abort.removeEventListener('abort', onAbort);
      done();
    };
    const look = (): void => {
      if (test()) {
        finish(resolve);
      }
    };
    const onAbort = (): void => finish(() => reject(abort.reason as Error));
    if (abort.aborted) {
      onAbort();
      return;
    }
    signals.forEach(signal => signal.connect(look));
    abort.addEventListener('abort', onAbort);
    look();
  });
}

/** Resolves with the kernel's own session id once it can be known and the socket numbers its messages. */
export async function attached(
  kernel: Kernel.IKernelConnection,
  link: ChannelLink,
  sessions: KernelSession,
  abort: AbortSignal
): Promise<string> {
  await whenever(
    [kernel.anyMessage, kernel.connectionStatusChanged],
    () => kernel.connectionStatus === 'connected' && link.isNumbered && sessions.current !== null,
    abort
  );
  return sessions.current ?? '';
}

/** The session id under which a kernel speaks; it changes when the kernel is restarted. */
export class KernelSession {
  current: string | null = null;
  private readonly note = (_: unknown, { msg, direction }: Kernel.IAnyMessageArgs): void => {
    if (direction === 'recv') {
      this.current = msg.header.session;
    }
  };

  constructor(private readonly kernel: Kernel.IKernelConnection) {
    kernel.anyMessage.connect(this.note);
  }

  dispose(): void {
    this.kernel.anyMessage.disconnect(this.note);
  }
}

/** Resolves once the connection has dealt with the message `id`. */
export function handled(kernel: Kernel.IKernelConnection, id: string, abort: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (_: unknown, message: KernelMessage.IIOPubMessage): void => {
      if (message.header.msg_id === id) {
        end(resolve);
      }
    };
    const onAbort = (): void => end(() => reject(abort.reason as Error));
    const end = (done: () => void): void => {
      kernel.iopubMessage.disconnect(look);
      abort.removeEventListener('abort', onAbort);
      done();
    };
    kernel.iopubMessage.connect(look);
    abort.addEventListener('abort', onAbort);
  });
}
