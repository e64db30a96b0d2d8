/**
 * Output widgets of cells that go on. What they capture is kept by the page, which tells the kernel, and a busy kernel does not
 * listen: after a reload the bridge alone knows it. A model that is made from the kernel's state does not capture, either, before
 * its `msg_id` has changed.
 */
import { type Kernel, KernelMessage } from '@jupyterlab/services';
import type { CapturedOutputs } from '@tpulab/protocol';
import type { ChannelLink } from '../backends/channel-link.js';
import { wait } from '../platform/wait.js';
import { frameOf } from './messages.js';

/** The modules of widgets have been loaded by then. */
const MODELS_WAIT_MS = 5_000;
const POLL_MS = 50;

/** Those that have captured something of these executions. */
export function capturedOf(
  widgets: readonly CapturedOutputs[],
  msgIds: ReadonlySet<string>
): CapturedOutputs[] {
  return widgets.filter(widget => widget.msgIds.some(id => msgIds.has(id)));
}

/**
 * Shows what Output widgets of this process captured, once they have models: the kernel knows only what a page told it in time. The
 * bridge's record has it all, what the kernel set itself included.
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

/** Set a model to what the bridge knows, and have it capture what follows. */
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

/** Resolves when these widgets have models that hear their kernel, or when there is no hope that they will. */
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

/** A comm without a handler drops what comes; JupyterLab has no public way to see whether there is one. */
function listens(kernel: Kernel.IKernelConnection, commId: string): boolean {
  const { _comms: comms } = kernel as { readonly _comms?: ReadonlyMap<string, Kernel.IComm> };
  return comms === undefined ? kernel.hasComm(commId) : comms.get(commId)?.onMsg !== undefined;
}
