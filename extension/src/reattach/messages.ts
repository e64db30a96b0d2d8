/**
 * Turns the bridge's record of an execution into the messages that would show it: passed to an output area one after
 * another, they restore its state, ready for the next message.
 */
import { type Kernel, KernelMessage } from '@jupyterlab/services';
import type { CellExecution, OutputEntry } from '@tpulab/protocol';

/** Sender of the messages: `session` of the kernel, so that Lab does not attribute them to an earlier kernel. */
interface ISpeaker {
  readonly kernelSession: string;
  /** Client that sent the request; '' when unknown. */
  readonly clientSession: string;
}

type IOPub = KernelMessage.IIOPubMessage;

export function outputMessages(execution: CellExecution, speaker: ISpeaker): IOPub[] {
  const make = maker(execution, speaker);
  const messages = execution.outputs.flatMap(entry => entryMessages(entry, make));
  if (execution.clearPending) messages.push(make('clear_output', { wait: true }));
  return messages;
}

/** The reply that this page has not received. */
export function replyMessage(
  execution: CellExecution,
  { kernelSession, clientSession }: ISpeaker
): KernelMessage.IExecuteReplyMsg {
  const count = execution.executionCount ?? 0;
  const content =
    execution.state === 'ok'
      ? { status: 'ok', execution_count: count, user_expressions: {} }
      : execution.state === 'error'
        ? { status: 'error', execution_count: count, ...errorOf(execution) }
        : { status: 'aborted', execution_count: count };
  return KernelMessage.createMessage<KernelMessage.IExecuteReplyMsg>({
    channel: 'shell',
    msgType: 'execute_reply',
    session: kernelSession,
    parentHeader: requestHeader(execution, clientSession),
    content: content as KernelMessage.IExecuteReplyMsg['content']
  });
}

/** The original request, for a future that represents it. */
export function requestMessage(
  execution: CellExecution,
  code: string,
  clientSession: string
): KernelMessage.IExecuteRequestMsg {
  return KernelMessage.createMessage<KernelMessage.IExecuteRequestMsg>({
    channel: 'shell',
    msgType: 'execute_request',
    session: clientSession,
    msgId: execution.msgId,
    content: { code, silent: false, store_history: true, allow_stdin: true, stop_on_error: true },
    metadata: { cellId: execution.cellId }
  });
}

/** Passes a message to a kernel connection as bytes. */
export function frameOf(kernel: Kernel.IKernelConnection, message: KernelMessage.IMessage): ArrayBuffer {
  const { serializer } = kernel.serverSettings;
  return serializer.serialize(message, 'v1.kernel.websocket.jupyter.org') as ArrayBuffer;
}

type Make = (
  msgType: KernelMessage.IOPubMessageType,
  content: KernelMessage.IIOPubMessage['content'] | object
) => IOPub;

function maker(execution: CellExecution, { kernelSession, clientSession }: ISpeaker): Make {
  const parentHeader = requestHeader(execution, clientSession);
  return (msgType, content) =>
    KernelMessage.createMessage({
      channel: 'iopub',
      msgType: msgType as 'stream',
      session: kernelSession,
      parentHeader,
      content: content as KernelMessage.IStreamMsg['content']
    });
}

function entryMessages({ output, displayId, cursor }: OutputEntry, make: Make): IOPub[] {
  const transient = displayId === null ? {} : { transient: { display_id: displayId } };
  switch (output.output_type) {
    case 'stream': {
      const { name, text } = output;
      const back = cursor === null ? null : rewriteLine(text, cursor);
      return [text, ...(back === null ? [] : [back])].map(part => make('stream', { name, text: part }));
    }
    case 'display_data':
      return [make('display_data', { data: output.data, metadata: output.metadata, ...transient })];
    case 'execute_result': {
      const { data, metadata, execution_count: count } = output;
      return [make('execute_result', { data, metadata, execution_count: count, ...transient })];
    }
    case 'error': {
      const { ename, evalue, traceback } = output;
      return [make('error', { ename, evalue, traceback })];
    }
  }
}

/** Moves the next character's position back into the last line: repeats the line from its start up to the cursor. */
function rewriteLine(text: string, cursor: number): string | null {
  return cursor >= text.length ? null : `\r${text.slice(text.lastIndexOf('\n') + 1, cursor)}`;
}

function errorOf(execution: CellExecution): { ename: string; evalue: string; traceback: string[] } {
  const error = execution.outputs.map(({ output }) => output).find(output => output.output_type === 'error');
  return error?.output_type === 'error'
    ? { ename: error.ename, evalue: error.evalue, traceback: error.traceback }
    : { ename: '', evalue: '', traceback: [] };
}

function requestHeader(execution: CellExecution, session: string): KernelMessage.IHeader<'execute_request'> {
  return {
    msg_id: execution.msgId,
    msg_type: 'execute_request',
    session,
    username: '',
    date: execution.requestedAt,
    version: '5.3'
  };
}
