/**
 * What somebody types into a password prompt is sent to the kernel, and is not kept: the journal gets the answer without
 * its value. Everything else that clients say is kept as it came.
 */
import { type KernelMessage, type MessageHeader, parseObject, PART } from '../jupyter/kernel-message.js';
import { encodeV1 } from '../jupyter/v1-frame.js';

const NO_PART = Buffer.alloc(0);

export class SecretInput {
  /**
   * Whether the last question of the kernel was for a password. True before any question was heard: a keeper that has taken
   * over a kernel does not know what was asked before, and an answer that nobody asked for tells the journal nothing.
   */
  #secret = true;

  /** A message of the kernel on stdin. */
  asked(message: KernelMessage, header: MessageHeader): void {
    if (header.msg_type === 'input_request') {
      this.#secret = objectOf(message.parts[PART.content])['password'] === true;
    }
  }

  /** The frame to be kept instead of this message of a client; null when it may be kept as it is. */
  withoutSecret(message: KernelMessage, header: MessageHeader): Buffer | null {
    if (!this.#secret || message.channel !== 'stdin' || header.msg_type !== 'input_reply') return null;
    const { parts } = message;
    const metadata = { ...objectOf(parts[PART.metadata]), tpulab: { redacted: true } };
    const content = { ...objectOf(parts[PART.content]), value: '' };
    return encodeV1({
      channel: 'stdin',
      parts: [
        parts[PART.header] ?? NO_PART,
        parts[PART.parentHeader] ?? NO_PART,
        Buffer.from(JSON.stringify(metadata)),
        Buffer.from(JSON.stringify(content))
      ]
    });
  }
}

/** What cannot be read is treated as empty: nothing of it is kept then. */
function objectOf(part: Buffer | undefined): Record<string, unknown> {
  try {
    return parseObject(part ?? NO_PART, 'part');
  } catch {
    return {};
  }
}
