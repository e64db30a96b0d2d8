/**
 * Makes Lab's kernel connection adopt a request of an earlier page: a future with the same message id, whose request is not
 * sent because the kernel has it. From then on replies, outputs, questions, hooks and display updates take their usual paths.
 */
import type { Kernel } from '@jupyterlab/services';
import type { CellExecution } from '@tpulab/protocol';
import type { ChannelLink } from '../backends/channel-link.js';
import { requestMessage } from './messages.js';
import type { ExecuteFuture } from './notebook.js';

export function adopt(
  kernel: Kernel.IKernelConnection,
  link: ChannelLink,
  execution: CellExecution,
  request: { readonly code: string; readonly clientSession: string }
): ExecuteFuture {
  link.keepBack(execution.msgId);
  const message = requestMessage(execution, request.code, request.clientSession);
  // Retained after its end, as Lab retains futures of its own cells: a display may be updated by another cell.
  return kernel.sendShellMessage(message, true, false) as ExecuteFuture;
}
