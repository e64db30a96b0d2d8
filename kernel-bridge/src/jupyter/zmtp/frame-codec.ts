/**
 * Frames of ZMTP 3 (RFC 23): a flags byte, a length of one or eight bytes, the body. A frame with the flag MORE belongs to
 * the same message as the next frame; a frame with the flag COMMAND is for the protocol itself.
 */
import { CodedError } from '@tpulab/platform/errors.js';
const MORE = 1;
const LONG = 2;
const COMMAND = 4;
const KNOWN_FLAGS = MORE | LONG | COMMAND;

/** Node's limit for one buffer is higher; a frame of this size is invalid from a kernel, or not ZMTP. */
export const MAX_FRAME_BYTES = 2 ** 31;
/** A Jupyter message has a few frames and its buffers; an endless message must not fill the memory. */
const MAX_FRAMES = 65_536;

/** Frames up to this size are copied together, so that a message is one write. Above it, copying costs more than a write. */
const COPIED_BYTES = 16 * 1024;
/** Memory up to this size is reused for the next large frame: fresh pages cost as much as the copy into them. */
const REUSED_BYTES = 8 * 1024 * 1024;
/** A frame of this size is read directly into its place; bytes after it wait for the next read. */
const PLACED_BYTES = 128 * 1024;
const MAX_HEADER = 9;
const NOTHING = Buffer.alloc(0);

/** The bytes of one message, in few pieces; large frames are passed without a copy. */
export function encodeMessage(frames: readonly Uint8Array[]): Buffer[] {
  const pieces: Buffer[] = [];
  let room = 0;
  for (const frame of frames) room += MAX_HEADER + (frame.length <= COPIED_BYTES ? frame.length : 0);
  const small = Buffer.allocUnsafe(room);
  let begin = 0;
  let end = 0;
  frames.forEach((frame, index) => {
    end = writeHeader(small, end, index < frames.length - 1 ? MORE : 0, frame.length);
    if (frame.length <= COPIED_BYTES) {
      small.set(frame, end);
      end += frame.length;
    } else {
      pieces.push(small.subarray(begin, end), Buffer.from(frame.buffer, frame.byteOffset, frame.length));
      begin = end;
    }
  });
  if (end > begin) pieces.push(small.subarray(begin, end));
  return pieces;
}

/** A command: its name, then whatever the command defines. */
export function encodeCommand(name: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from([name.length]), Buffer.from(name, 'latin1'), data]);
  const bytes = Buffer.allocUnsafe(MAX_HEADER + body.length);
  const start = writeHeader(bytes, 0, COMMAND, body.length);
  body.copy(bytes, start);
  return bytes.subarray(0, start + body.length);
}

function writeHeader(bytes: Buffer, at: number, flags: number, length: number): number {
  if (length < 256) {
    bytes[at] = flags;
    bytes[at + 1] = length;
    return at + 2;
  }
  bytes[at] = flags | LONG;
  bytes.writeBigUInt64BE(BigInt(length), at + 1);
  return at + MAX_HEADER;
}

interface FrameSink {
  /** A whole message. Its frames are views into memory that is soon reused: store copies. */
  message(frames: Buffer[]): void;
  command(name: string, data: Buffer): void;
}

/** A frame that is still incomplete. */
interface PartialFrame {
  readonly flags: number;
  readonly body: Buffer;
  filled: number;
}

/**
 * Finds messages in a stream of bytes that may be split anywhere. Throws `zmtp_frame_malformed`; the decoder is unusable
 * after that.
 */
export class FrameDecoder {
  #frames: Buffer[] = [];
  /** The first bytes of a frame whose header is not complete yet. */
  #header: Buffer = NOTHING;
  #partial: PartialFrame | null = null;
  /** The memory of the last large frame, as long as its message is incomplete. */
  #used: ArrayBufferLike | null = null;
  /** Memory of a large frame whose message has been passed on: the next frame may reuse it. */
  #spare: ArrayBufferLike | null = null;

  constructor(private readonly sink: FrameSink) {}

  /**
   * Where the next bytes should be read to: the rest of a large frame is read directly into its place. They are passed to
   * `push` anyway. Null: anywhere.
   */
  get target(): Buffer | null {
    const partial = this.#partial;
    return partial === null || partial.body.length - partial.filled < PLACED_BYTES
      ? null
      : partial.body.subarray(partial.filled);
  }

  /** The chunk may be reused after this call. */
  push(chunk: Buffer): void {
    const partial = this.#partial;
    if (partial !== null && isTail(chunk, partial)) {
      this.#filled(partial, chunk.length);
      return;
    }
    this.#decode(chunk);
    if (this.#frames.length > 0) {
      // The end of this message is still to come, so its frames outlive the chunk.
      this.#frames = this.#frames.map(frame => (frame.buffer === chunk.buffer ? Buffer.from(frame) : frame));
    }
  }

  #decode(chunk: Buffer): void {
    let at = this.#fill(chunk);
    if (this.#header.length > 0) {
      chunk = Buffer.concat([this.#header, chunk.subarray(at)]);
      this.#header = NOTHING;
      at = 0;
    }
    while (at < chunk.length) {
      const flags = chunk[at] ?? 0;
      const begin = at + ((flags & LONG) === 0 ? 2 : MAX_HEADER);
      if (begin > chunk.length) {
        this.#header = Buffer.from(chunk.subarray(at));
        return;
      }
      const length = frameLength(chunk, at, flags);
      if (begin + length > chunk.length) {
        // Allocated once in full, so that a large frame is copied once, however many chunks it has.
        const body = this.#room(length);
        this.#partial = { flags, body, filled: chunk.copy(body, 0, begin) };
        return;
      }
      at = begin + length;
      this.#take(flags, chunk.subarray(begin, at));
    }
  }

  /** Copies bytes to the incomplete frame; returns where the rest of the chunk begins. */
  #fill(chunk: Buffer): number {
    const partial = this.#partial;
    if (partial === null) return 0;
    const copied = chunk.copy(partial.body, partial.filled);
    this.#filled(partial, copied);
    return copied;
  }

  #filled(partial: PartialFrame, bytes: number): void {
    partial.filled += bytes;
    if (partial.filled === partial.body.length) {
      this.#partial = null;
      const { buffer } = partial.body;
      if (partial.body.length >= PLACED_BYTES && buffer.byteLength <= REUSED_BYTES) this.#used = buffer;
      this.#take(partial.flags, partial.body);
    }
  }

  #take(flags: number, body: Buffer): void {
    if ((flags & COMMAND) !== 0) {
      this.#command(flags, body);
      return;
    }
    this.#frames.push(body);
    if ((flags & MORE) === 0) {
      const frames = this.#frames;
      this.#frames = [];
      this.sink.message(frames);
      this.#reuse();
    } else if (this.#frames.length > MAX_FRAMES) {
      throw new ZmtpError('zmtp_frame_malformed', `A message has more than ${MAX_FRAMES} frames.`);
    }
  }

  #room(length: number): Buffer {
    const spare = this.#spare;
    if (length < PLACED_BYTES || spare === null || length > spare.byteLength) {
      return Buffer.allocUnsafe(length);
    }
    this.#spare = null;
    return Buffer.from(spare, 0, length);
  }

  #reuse(): void {
    if (this.#used === null) return;
    if (this.#used.byteLength > (this.#spare?.byteLength ?? 0)) this.#spare = this.#used;
    this.#used = null;
  }

  #command(flags: number, body: Buffer): void {
    const nameEnd = 1 + (body[0] ?? 0);
    if ((flags & MORE) !== 0 || body.length < Math.max(nameEnd, 2)) {
      throw new ZmtpError('zmtp_frame_malformed', 'A command without a name, or in several frames.');
    }
    this.sink.command(body.toString('latin1', 1, nameEnd), body.subarray(nameEnd));
  }
}

/** Whether the chunk was read directly into the rest of the frame. */
function isTail(chunk: Buffer, { body, filled }: PartialFrame): boolean {
  return chunk.buffer === body.buffer && chunk.byteOffset === body.byteOffset + filled;
}

function frameLength(bytes: Buffer, at: number, flags: number): number {
  if ((flags & ~KNOWN_FLAGS) !== 0) {
    throw new ZmtpError('zmtp_frame_malformed', `Flags 0x${flags.toString(16)} are not defined in ZMTP 3.`);
  }
  if ((flags & LONG) === 0) return bytes[at + 1] ?? 0;
  const length = bytes.readBigUInt64BE(at + 1);
  if (length > BigInt(MAX_FRAME_BYTES)) {
    throw new ZmtpError('zmtp_frame_malformed', `A frame of ${length} bytes; at most ${MAX_FRAME_BYTES}.`);
  }
  return Number(length);
}

/** Errors between us and the other end of a ZMTP connection. */
export type ZmtpErrorCode = 'zmtp_endpoint_invalid' | 'zmtp_peer_unsupported' | 'zmtp_frame_malformed';

export class ZmtpError extends CodedError<ZmtpErrorCode> {}
