/** The messages that a read-only client (reader) receives, and may send. */
import type { JournalRecord } from '../journal/index.js';
import { encodeV1, PART, partOf } from '../jupyter/index.js';
import { newMessage } from '../jupyter/kernel-message.js';
import type { Kernel } from '../kernels/kernel.js';
import { type ClientRequest, debugCommand, type Refusal } from './refusal.js';

/** What the client may see of the kernel. */
export interface ReaderView {
  /** The client gets no record before this one. */
  readonly from: number;
  /** Whether the client gets this record; every record has to pass, in order. */
  shows(record: JournalRecord): boolean;
  /** Whether the client may see the request with this id, and its output. */
  showsRequest(msgId: string): boolean;
}

const READ_ONLY: Refusal = {
  code: 'read_only',
  message: 'This link only shows a notebook. It cannot send anything to the kernel.'
};

const NO_STEERING: Refusal = {
  code: 'not_permitted',
  message: 'The token of this client may run code, but neither interrupt the kernel nor shut it down.'
};

/**
 * The refusals for one client. A page sends its kernel one `kernel_info_request`, to learn its language. The gateway itself
 * answers it: no message of a reader reaches the kernel.
 */
export function readerRefusals(): (request: ClientRequest) => Refusal | null {
  let isRequested = false;
  return ({ header, message }) => {
    if (header.msg_type !== 'kernel_info_request' || message.channel !== 'shell' || isRequested)
      return READ_ONLY;
    isRequested = true;
    return null;
  };
}

/** The kernel's cached information, as a reply to `request`. Null when it is unknown. */
export async function kernelInfoFor(kernel: Kernel, { message }: ClientRequest): Promise<Buffer[] | null> {
  const content = await kernel.kernelInfo();
  const session = kernel.snapshot.kernelSession;
  if (content === null || session === null) return null;
  const parent = partOf(message, PART.header);
  const made = (msgType: string, about: object): Buffer[] =>
    newMessage({ msgType, session, parent, content: about });
  return [
    encodeV1({ channel: 'shell', parts: made('kernel_info_reply', JSON.parse(content) as object) }),
    encodeV1({ channel: 'iopub', parts: made('status', { execution_state: 'idle' }) })
  ];
}

/** Why a client whose token may only run code may not send this. */
export function steeringRefusal({ header, message }: ClientRequest): Refusal | null {
  const isSteering =
    ['interrupt_request', 'shutdown_request'].includes(header.msg_type) ||
    (header.msg_type === 'debug_request' && debugCommand(message).command === 'terminate');
  return isSteering ? NO_STEERING : null;
}
