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
  /** One or more consecutive journal records, as in the segment file. */
  records: 5,
  telemetry: 6
} as const;

export const FRAME_HEADER_BYTES = 5;
/** Offset of the type, after the length, which counts from here. */
const TYPE_AT = 4;
const NOTHING = Buffer.alloc(0);

/** Fits the largest record. A larger length means that the other end uses another protocol. */
export const MAX_FRAME_BYTES = MAX_RECORD_BYTES + 64 * 1024;

/** Writes the header of a frame whose body has `bodyBytes`, at `at`. */
export function writeFrameHeader(target: Buffer, at: number, type: number, bodyBytes: number): void {
  target.writeUInt32LE(bodyBytes + 1, at);
  target.writeUInt8(type, at + 4);
}

/** The header of a frame whose body is written separately. */
export function frameHeader(type: number, bodyBytes: number): Buffer {
  const header = Buffer.allocUnsafe(FRAME_HEADER_BYTES);
  writeFrameHeader(header, 0, type, bodyBytes);
  return header;
}

export function encodeFrame(type: number, ...body: readonly Buffer[]): Buffer {
  let bodyBytes = 0;
  for (const piece of body) bodyBytes += piece.length;
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

/** Splits a stream of chunks into frames. A frame within one chunk is not copied; any other is copied once. */
export class FrameDecoder {
  /** The first bytes of a frame whose header is not complete yet. */
  #start: Buffer = NOTHING;
  /** A frame whose header is complete; `#filled` bytes of it have arrived. */
  #frame: Buffer | null = null;
  #filled = 0;

  /** Calls `onFrame` for each frame that is complete now; its body is a view. Throws `keeper_protocol`. */
  push(chunk: Buffer, onFrame: (type: number, body: Buffer) => void): void {
    let bytes = this.#complete(chunk, onFrame);
    while (bytes.length >= FRAME_HEADER_BYTES) {
      const end = frameEnd(bytes);
      if (bytes.length < end) {
        this.#frame = Buffer.allocUnsafe(end);
        this.#filled = bytes.copy(this.#frame);
        return;
      }
      const frame = bytes.subarray(0, end);
      bytes = bytes.subarray(end);
      onFrame(frame[TYPE_AT] ?? 0, frame.subarray(FRAME_HEADER_BYTES));
    }
    this.#start = bytes;
  }

  /** Adds bytes to the incomplete frame; returns the rest of the chunk. */
  #complete(chunk: Buffer, onFrame: (type: number, body: Buffer) => void): Buffer {
    const frame = this.#frame;
    if (frame === null) {
      const bytes = this.#start.length === 0 ? chunk : Buffer.concat([this.#start, chunk]);
      this.#start = NOTHING;
      return bytes;
    }
    const copied = chunk.copy(frame, this.#filled);
    this.#filled += copied;
    if (this.#filled === frame.length) {
      this.#frame = null;
      onFrame(frame[TYPE_AT] ?? 0, frame.subarray(FRAME_HEADER_BYTES));
    }
    return chunk.subarray(copied);
  }
}

/** The end of a frame whose header is complete, header included. */
function frameEnd(bytes: Buffer): number {
  const length = bytes.readUInt32LE(0);
  if (length < 1 || length > MAX_FRAME_BYTES) {
    throw new KeeperError(
      'keeper_protocol',
      `A frame of ${length} bytes is impossible; the peer does not speak the keeper protocol.`
    );
  }
  return TYPE_AT + length;
}
