/** Waits for messages of a kernel connection; each ends with the given signal. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { ChannelLink } from '../backends/channel-link.js';
import { whenever } from '../platform/wait.js';

/** Resolves with the kernel's own session id once a socket is open that numbers its messages, and a message has arrived. */
export async function attached(
  kernel: Kernel.IKernelConnection,
  link: ChannelLink,
  abort: AbortSignal
): Promise<string> {
  // The link has received the kernel's messages from the start. A kernel that is idle by now may send no more.
  await whenever(
    [kernel.anyMessage, kernel.connectionStatusChanged],
    () => kernel.connectionStatus === 'connected' && link.isNumbered && link.kernelSession !== null,
    abort
  );
  return link.kernelSession ?? '';
}

/** Resolves once the connection has processed the message `id`. */
export function handled(kernel: Kernel.IKernelConnection, id: string, abort: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const check = (_: unknown, message: KernelMessage.IIOPubMessage): void => {
      if (message.header.msg_id === id) end(resolve);
    };
    const onAbort = (): void => end(() => reject(abort.reason as Error));
    const end = (done: () => void): void => {
      kernel.iopubMessage.disconnect(check);
      abort.removeEventListener('abort', onAbort);
      done();
    };
    kernel.iopubMessage.connect(check);
    abort.addEventListener('abort', onAbort);
  });
}
