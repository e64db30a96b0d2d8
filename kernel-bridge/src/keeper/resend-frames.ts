/**
 * What a kernel of our launcher answers on its resend socket: frames `u32 length | u8 kind | body`, little-endian. The other
 * end is `tpulab/launcher/resend_socket.py`.
 */
import type { ChannelName } from '../jupyter/kernel-message.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';

const JSON_FRAME = 1;
const MESSAGE_FRAME = 2;

/** In the order in which the launcher counts them. */
const CHANNELS: readonly ChannelName[] = ['shell', 'control', 'stdin', 'iopub'];

/** One message as the kernel has sent it, identity or topic first. */
export interface SentMessage {
  readonly channel: ChannelName;
  readonly frames: Buffer[];
}

export interface ResendFrames {
  answer(content: Record<string, unknown>): void;
  message(message: SentMessage): void;
}

/** Cuts the bytes of the socket into frames; a frame's parts are copies that the receiver may keep. */
export class ResendDecoder {
  #parts: Buffer[] = [];
  #bytes = 0;
  /** Of the frame that is under way, its length included; 0 while that is unknown. */
  #needed = 0;

  constructor(private readonly frames: ResendFrames) {}

  push(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    while (this.#bytes >= Math.max(this.#needed, 4)) {
      const bytes = this.#joined();
      this.#needed = 4 + bytes.readUInt32LE(0);
      if (bytes.length < this.#needed) {
        return;
      }
      this.#frame(bytes.subarray(4, this.#needed));
      const rest = bytes.subarray(this.#needed);
      this.#parts = [rest];
      this.#bytes = rest.length;
      this.#needed = 0;
    }
  }

  #joined(): Buffer {
    const [only] = this.#parts;
    const bytes = this.#parts.length === 1 && only !== undefined ? only : Buffer.concat(this.#parts);
    this.#parts = [bytes];
    return bytes;
  }

  #frame(body: Buffer): void {
    switch (body[0]) {
      case JSON_FRAME:
        this.frames.answer(JSON.parse(body.toString('utf8', 1)) as Record<string, unknown>);
        break;
      case MESSAGE_FRAME:
        this.frames.message(decodeMessage(body));
        break;
      default:
        throw new KeeperError(
          'keeper_protocol',
          `The kernel's launcher sent a frame of unknown kind ${body[0]}; restart the kernel.`
        );
    }
  }
}

function decodeMessage(body: Buffer): SentMessage {
  const channel = CHANNELS[body.readUInt8(1)];
  const frames: Buffer[] = [];
  let at = 4;
  for (let left = body.readUInt16LE(2); left > 0; left--) {
    const end = at + 4 + body.readUInt32LE(at);
    frames.push(Buffer.from(body.subarray(at + 4, end)));
    at = end;
  }
  if (channel === undefined || at !== body.length) {
    throw new KeeperError(
      'keeper_protocol',
      'A message that the launcher sent again is not whole; restart the kernel.'
    );
  }
  return { channel, frames };
}
