const CLOSE_OPCODE = 0x8;

/** Follows the frames of one direction of a WebSocket (RFC 6455, 5.2), to know when another frame may be put between two. */
export class FrameBoundary {
  /** Header bytes of the frame that has begun. */
  #header: number[] = [];
  #payloadLeft = 0;
  #hasClosed = false;

  /** Whether a close frame has begun: after it there is nothing more to say. */
  get hasClosed(): boolean {
    return this.#hasClosed;
  }

  /** Whether all bytes so far are whole frames. */
  get isBetweenFrames(): boolean {
    return this.#payloadLeft === 0 && this.#header.length === 0;
  }

  take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, chunk.length - at);
        this.#payloadLeft -= taken;
        at += taken;
        continue;
      }
      this.#header.push(chunk[at++] ?? 0);
      const length = headerLength(this.#header);
      if (length === null || this.#header.length < length) continue;
      this.#payloadLeft = payloadLength(this.#header);
      this.#hasClosed ||= ((this.#header[0] ?? 0) & 0x0f) === CLOSE_OPCODE;
      this.#header = [];
    }
  }
}

/** Of the header as a whole; null while that cannot be known. */
function headerLength(header: readonly number[]): number | null {
  const second = header[1];
  if (second === undefined) return null;
  const short = second & 0x7f;
  return 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + (second & 0x80 ? 4 : 0);
}

function payloadLength(header: readonly number[]): number {
  const short = (header[1] ?? 0) & 0x7f;
  const bytes = short === 126 ? 2 : short === 127 ? 8 : 0;
  if (bytes === 0) return short;
  return header.slice(2, 2 + bytes).reduce((length, byte) => length * 256 + byte, 0);
}

/** A close frame of a server, which is not masked. */
export function closeFrame(code: number, reason: string): Buffer {
  const words = Buffer.from(reason, 'utf8').subarray(0, 123);
  return Buffer.concat([Buffer.from([0x88, 2 + words.length, code >> 8, code & 0xff]), words]);
}
