/**
 * Frames on the socket between keeper and gateway: `u32 little-endian length | u8 type | body`, where the length counts
 * the type and the body. Bodies: see docs/architecture.md, "Keeper socket".
 */
import { MAX_RECORD_BYTES } from '../journal/record-codec.js';
import { KeeperError } from './keeper-error.js';

export const FrameType = {
  command: 1,
  reply: 2,
  event: 3,
  message: 4,
  /** One or more journal records, as they are in the segment file, consecutive. */
  records: 5,
  telemetry: 6
} as const;

export const FRAME_HEADER_BYTES = 5;

/** Holds the largest record. A larger length means that the other end does not speak this protocol. */
export const MAX_FRAME_BYTES = MAX_RECORD_BYTES + 64 * 1024;

/** Writes the header of a frame whose body has `bodyBytes`, at `at`. */
export function writeFrameHeader(target: Buffer, at: number, type: number, bodyBytes: number): void {
  target.writeUInt32LE(bodyBytes + 1, at);
  target.writeUInt8(type, at + 4);
}

export function encodeFrame(type: number, ...body: readonly Buffer[]): Buffer {
  let bodyBytes = 0;
  for (const piece of body) {
    bodyBytes += piece.length;
  }
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + bodyBytes);
  writeFrameHeader(frame, 0, type, bodyBytes);
  let at = FRAME_HEADER_BYTES;
  for (const piece of body) {
    frame.set(piece, at);
    at += piece.length;
  }
  return frame;
}

export function encodeJsonFrame(type: number, body: object): Buffer {
  return encodeFrame(type, Buffer.from(JSON.stringify(body)));
}

/** Cuts a stream of chunks into frames. A frame that lies in one chunk is not copied. */
export class FrameDecoder {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #needed = FRAME_HEADER_BYTES;

  /** Calls `onFrame` for each frame that is complete now; its body is a view. Throws `keeper_protocol`. */
  push(chunk: Buffer, onFrame: (type: number, body: Buffer) => void): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) {
      return;
    }
    let bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#bytes);
    this.#needed = FRAME_HEADER_BYTES;
    while (bytes.length >= FRAME_HEADER_BYTES) {
      const length = bytes.readUInt32LE(0);
      if (length < 1 || length > MAX_FRAME_BYTES) {
        throw new KeeperError(
          'keeper_protocol',
          `A frame of ${length} bytes is impossible; the other end speaks no keeper protocol.`
        );
      }
      if (bytes.length < 4 + length) {
        this.#needed = 4 + length;
        break;
      }
      const body = bytes.subarray(FRAME_HEADER_BYTES, 4 + length);
      const type = bytes.readUInt8(4);
      bytes = bytes.subarray(4 + length);
      onFrame(type, body);
    }
    this.#chunks = bytes.length === 0 ? [] : [bytes];
    this.#bytes = bytes.length;
  }
}
