/** What a client gets, and may say, that only looks on. */
import type { JournalRecord } from '../journal/index.js';
import { encodeV1, PART, partOf } from '../jupyter/index.js';
import { newMessage } from '../jupyter/kernel-message.js';
import type { Kernel } from '../kernels/kernel.js';
import { type ClientRequest, debugCommand, type Refusal } from './refusal.js';

/** What the client may see of the kernel. */
export interface ReaderView {
  /** It gets nothing from before this record. */
  readonly from: number;
  /** Whether it gets this record; every record has to pass, in order. */
  shows(record: JournalRecord): boolean;
  /** Whether it may see what belongs to the request with this id. */
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
 * For one client. A page asks its kernel once what it is, which tells it the language. The gateway answers that itself: nothing of a
 * reader gets to the kernel.
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

/** What the kernel has said of itself, as its answer to `request`. Null when nobody knows it. */
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

/** Why a client whose token may run code, and no more, does not send this. */
export function steeringRefusal({ header, message }: ClientRequest): Refusal | null {
  const isSteering =
    ['interrupt_request', 'shutdown_request'].includes(header.msg_type) ||
    (header.msg_type === 'debug_request' && debugCommand(message).command === 'terminate');
  return isSteering ? NO_STEERING : null;
}
