/**
 * JupyterLab's widget manager requests the state of all widgets from the kernel whenever its connection is back. The page's present
 * state is newer than the answer: all messages of the kernel were delivered, and the page's own messages (a moved slider,
 * the captures of an Output widget) wait in a busy kernel. Only the widgets that the page lacks are left in the answer.
 *
 * The manager waits four seconds for the answer, even while the page has no connection. Then it requests each widget individually, which
 * a busy kernel answers when its cell has ended; so those requests are answered here, with the states received so far.
 */
import type { Kernel } from '@jupyterlab/services';
import { KernelMessage } from '@jupyterlab/services';
import type { ChannelLink } from '../backends/channel-link.js';
import { messageStart } from '../backends/message-id.js';
import { frameOf } from './messages.js';

const METHOD = 'update_states';
const REQUEST_STATE = 'request_state';
/** Received states are useless later: the widgets continue to change. */
const FRESH_MS = 30_000;
const V1 = 'v1.kernel.websocket.jupyter.org';

interface IStates {
  readonly states?: Record<string, { readonly state: Record<string, unknown> }>;
  readonly buffer_paths?: readonly (readonly (string | number)[])[];
}

export function followWidgetStates(kernel: Kernel.IKernelConnection, link: ChannelLink): void {
  const late = new LateStates(kernel, link);
  const left = withoutOpenWidgets(kernel, message => late.opened(message));
  link.rewrite = left;
  link.answers = data => late.answers(data);
}

class LateStates {
  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly link: ChannelLink
  ) {}

  opened(message: KernelMessage.ICommMsgMsg): void {
    this._message = message;
    this._openedAt = Date.now();
  }

  /** Whether a message of the page was a request for one widget, which has been answered. */
  answers(data: ArrayBuffer): boolean {
    const start = messageStart(data);
    if (
      this._message === null ||
      Date.now() - this._openedAt > FRESH_MS ||
      start?.header.includes('"comm_msg"') !== true ||
      !start.content.includes(REQUEST_STATE)
    ) {
      return false;
    }
    const { serializer } = this.kernel.serverSettings;
    const { header, content } = serializer.deserialize(data, V1) as KernelMessage.ICommMsgMsg;
    const { states, buffer_paths: paths = [] } = this._message.content.data as IStates;
    const known = states?.[content.comm_id];
    if (known === undefined || (content.data as { method?: unknown }).method !== REQUEST_STATE) return false;
    const buffers = this._message.buffers ?? [];
    const own = paths.flatMap(([id, ...path], at) => (id === content.comm_id ? [{ path, at }] : []));
    const answer = KernelMessage.createMessage<KernelMessage.ICommMsgMsg<'iopub'>>({
      channel: 'iopub',
      msgType: 'comm_msg',
      session: this._message.header.session,
      parentHeader: header,
      content: {
        comm_id: content.comm_id,
        data: { method: 'update', state: known.state, buffer_paths: own.map(({ path }) => path) } as never
      },
      buffers: own.flatMap(({ at }) => buffers[at] ?? [])
    });
    // After the manager has stored which answer it waits for.
    queueMicrotask(() => this.link.insert(frameOf(this.kernel, answer)));
    return true;
  }

  private _message: KernelMessage.ICommMsgMsg | null = null;
  private _openedAt = 0;
}

export function withoutOpenWidgets(
  kernel: Kernel.IKernelConnection,
  opened: (message: KernelMessage.ICommMsgMsg) => void = () => undefined
): (data: ArrayBuffer) => ArrayBuffer {
  return data => {
    const start = messageStart(data);
    if (start?.header.includes('"comm_msg"') !== true || !start.content.includes(METHOD)) return data;
    const { serializer } = kernel.serverSettings;
    const message = serializer.deserialize(data, V1) as KernelMessage.ICommMsgMsg;
    const answer = message.content.data as { method?: unknown; states?: Record<string, unknown> };
    if (answer.method !== METHOD || answer.states === undefined) return data;
    opened({ ...message, content: { ...message.content, data: { ...message.content.data } } });
    const lacking = Object.entries(answer.states).filter(([id]) => !kernel.hasComm(id));
    answer.states = Object.fromEntries(lacking);
    return frameOf(kernel, message);
  };
}
