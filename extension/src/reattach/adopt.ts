/**
 * Makes Lab's kernel connection take up a request of an earlier page: a future with the same message id, whose request stays
 * here because the kernel has it. From then on replies, outputs, questions, hooks and display updates go their usual ways.
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
  // Kept after its end, as Lab keeps those of its own cells: a display may be updated by another cell.
  return kernel.sendShellMessage(message, true, false) as ExecuteFuture;
}
