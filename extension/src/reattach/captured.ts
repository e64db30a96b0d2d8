/**
 * Output widgets of cells that are still running. The page stores their captured outputs and reports them to the kernel, and a busy
 * kernel does not read the report: after a reload only the bridge has them. A model created from the kernel's state captures
 * nothing before its `msg_id` has changed.
 */
import { type Kernel, KernelMessage } from '@jupyterlab/services';
import type { CapturedOutputs } from '@tpulab/protocol';
import type { ChannelLink } from '../backends/channel-link.js';
import { wait } from '../platform/wait.js';
import { frameOf } from './messages.js';

/** The widget modules are loaded by then. */
const MODELS_WAIT_MS = 5_000;
const POLL_MS = 50;

/** The widgets that have captured outputs of these executions. */
export function capturedOf(
  widgets: readonly CapturedOutputs[],
  msgIds: ReadonlySet<string>
): CapturedOutputs[] {
  return widgets.filter(widget => widget.msgIds.some(id => msgIds.has(id)));
}

/**
 * Shows the outputs that Output widgets of this process captured, once they have models: the kernel has only what a page reported in
 * time. The bridge's record is complete, including the state set by the kernel itself.
 */
export async function restoreCaptured(
  kernel: Kernel.IKernelConnection,
  link: ChannelLink,
  widgets: readonly CapturedOutputs[],
  signal: AbortSignal
): Promise<void> {
  const over = widgets.filter(({ capturing, outputs }) => !capturing && outputs.length > 0);
  await modelsListen(
    kernel,
    over.map(({ commId }) => commId),
    signal
  );
  const session = link.kernelSession;
  for (const widget of over) {
    if (session !== null && !signal.aborted && listens(kernel, widget.commId)) {
      captureMessages(widget, session).forEach(message => link.insert(frameOf(kernel, message)));
    }
  }
}

/** Sets a model to the bridge's state, and makes it capture later outputs. */
export function captureMessages(
  { commId, msgIds, capturing, outputs }: CapturedOutputs,
  kernelSession: string
): KernelMessage.IIOPubMessage[] {
  const last = capturing ? (msgIds.at(-1) ?? '') : '';
  return [{ msg_id: '' }, { outputs: outputs.map(({ output }) => output), msg_id: last }].map(state =>
    KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'iopub'>>({
      channel: 'iopub',
      msgType: 'comm_msg',
      session: kernelSession,
      content: { comm_id: commId, data: { method: 'update', state, buffer_paths: [] } as never }
    })
  );
}

/** Resolves when these widgets have models that listen to their kernel, or when that is no longer possible. */
export async function modelsListen(
  kernel: Kernel.IKernelConnection,
  commIds: readonly string[],
  signal: AbortSignal
): Promise<void> {
  for (let waited = 0; waited < MODELS_WAIT_MS && !signal.aborted; waited += POLL_MS) {
    if (commIds.every(id => listens(kernel, id))) return;
    await wait(POLL_MS, signal);
  }
}

/** A comm without a handler drops its messages; JupyterLab has no public way to detect a handler. */
function listens(kernel: Kernel.IKernelConnection, commId: string): boolean {
  const { _comms: comms } = kernel as { readonly _comms?: ReadonlyMap<string, Kernel.IComm> };
  return comms === undefined ? kernel.hasComm(commId) : comms.get(commId)?.onMsg !== undefined;
}
