/** Messages that the bridge makes itself: header, parent header, metadata and content. */
import { randomUUID } from 'node:crypto';

/** Of the protocol that we speak; kernels and clients take older and newer ones. */
const VERSION = '5.4';
const EMPTY = Buffer.from('{}');

export interface NewMessage {
  readonly msgType: string;
  /**
   * `header.session`. What a client sees carries the kernel's own: JupyterLab takes another one for a sign that the kernel was
   * restarted, and drops the work that it had queued.
   */
  readonly session: string;
  readonly msgId?: string;
  /** Header of the request that it belongs to, as JSON. */
  readonly parent?: Buffer | string;
  readonly metadata?: object;
  readonly content?: object;
}

export function newMessage(made: NewMessage): Buffer[] {
  const { parent, metadata, content } = made;
  return [
    Buffer.from(newHeader(made)),
    parent === undefined ? EMPTY : Buffer.from(parent),
    metadata === undefined ? EMPTY : Buffer.from(JSON.stringify(metadata)),
    content === undefined ? EMPTY : Buffer.from(JSON.stringify(content))
  ];
}

/** The header alone, as JSON: also the parent of a message about a request that nobody sent. */
export function newHeader({ msgType, session, msgId = randomUUID() }: NewMessage): string {
  const date = new Date().toISOString();
  return JSON.stringify({
    msg_id: msgId,
    msg_type: msgType,
    session,
    username: 'tpulab',
    date,
    version: VERSION
  });
}
