/**
 * JupyterLab's widget manager asks the kernel for the state of all widgets whenever its connection is back. What this page already
 * shows is newer than the answer: all that the kernel has said was delivered, and what the page has said itself (a slider that was
 * moved, what an Output widget captured) waits in a busy kernel. Only the widgets that the page lacks are left in the answer.
 */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { messageStart } from '../backends/message-id.js';
import { frameOf } from './messages.js';

const METHOD = 'update_states';

export function withoutKnownWidgets(kernel: Kernel.IKernelConnection): (data: ArrayBuffer) => ArrayBuffer {
  return data => {
    const start = messageStart(data);
    if (start?.header.includes('"comm_msg"') !== true || !start.content.includes(METHOD)) {
      return data;
    }
    const { serializer } = kernel.serverSettings;
    const message = serializer.deserialize(
      data,
      'v1.kernel.websocket.jupyter.org'
    ) as KernelMessage.ICommMsgMsg;
    const answer = message.content.data as { method?: unknown; states?: Record<string, unknown> };
    if (answer.method !== METHOD || answer.states === undefined) {
      return data;
    }
    const lacking = Object.entries(answer.states).filter(([id]) => !kernel.hasComm(id));
    answer.states = Object.fromEntries(lacking);
    return frameOf(kernel, message);
  };
}
