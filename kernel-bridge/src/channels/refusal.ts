/** Requests that the gateway does not pass on, and the replies that give the client the reason. */
import { randomUUID } from 'node:crypto';
import {
  type ChannelName,
  contentOf,
  encodeV1,
  type KernelMessage,
  type MessageHeader,
  PART,
  partOf
} from '../jupyter/index.js';
import { newMessage } from '../jupyter/kernel-message.js';

/** Codes in `metadata.tpulab.code` of such an answer; docs/error-codes.md lists them. */
export type RefusalCode = 'debugger_taken' | 'requests_held' | 'input_taken' | 'read_only' | 'not_permitted';

export interface ClientRequest {
  readonly message: KernelMessage;
  readonly header: MessageHeader;
  /** Bytes of the whole message. */
  readonly bytes: number;
}

export interface Refusal {
  readonly code: RefusalCode;
  /** What failed and what to do, as text for users. */
  readonly message: string;
}

/**
 * The reply as v1 frames: for `execute_request` an `error` output first, so that the cell shows it; then the reply and the
 * idle status that ends the request at the client. Empty for a message that expects no reply.
 */
export function refusalFrames(
  request: ClientRequest,
  refusal: Refusal,
  kernelSession: string | null
): Buffer[] {
  const { header, message } = request;
  const session = kernelSession ?? randomUUID();
  const frame = (channel: ChannelName, msgType: string, content: object): Buffer => {
    const metadata = { tpulab: { code: refusal.code } };
    const parent = partOf(message, PART.header);
    return encodeV1({ channel, parts: newMessage({ msgType, session, parent, metadata, content }) });
  };
  if (!header.msg_type.endsWith('_request')) return [];
  const error = { ename: refusal.code, evalue: refusal.message, traceback: [refusal.message] };
  const content =
    header.msg_type === 'debug_request'
      ? debugResponse(request, refusal)
      : { status: 'error', execution_count: 0, ...error };
  const outputs = header.msg_type === 'execute_request' ? [frame('iopub', 'error', error)] : [];
  return [
    ...outputs,
    frame(message.channel, header.msg_type.replace(/_request$/, '_reply'), content),
    frame('iopub', 'status', { execution_state: 'idle' })
  ];
}

/** A failed response of the Debug Adapter Protocol ("ErrorResponse"). */
function debugResponse({ message }: ClientRequest, refusal: Refusal): object {
  const { seq, command } = debugCommand(message);
  return {
    type: 'response',
    seq: 0,
    request_seq: seq,
    success: false,
    command,
    message: refusal.message,
    body: { error: { id: 1, format: refusal.message, showUser: true } }
  };
}

/** The command of a `debug_request`; empty when it cannot be read. */
export function debugCommand(message: KernelMessage): { seq: number; command: string } {
  try {
    const { seq, command } = contentOf(message);
    return {
      seq: typeof seq === 'number' ? seq : 0,
      command: typeof command === 'string' ? command : ''
    };
  } catch {
    return { seq: 0, command: '' };
  }
}
