/**
 * Reads which executions a client asks for, out of the bytes of its WebSocket as they pass. What cannot be read (compressed,
 * of another protocol, not a message at all) is no request: then its outputs are not trusted, and nothing else happens.
 */
import { parseHeader } from '../../jupyter/kernel-message.js';

export interface SeenRequest {
  readonly msgId: string;
  /** Null: not of a cell. */
  readonly cellId: string | null;
}

/** Header and metadata of a request stand before its code; what is longer than this is not looked at. */
const LOOKED_AT_BYTES = 64 * 1024;
const MAX_ID = 256;
/** Channel name, header, parent header, metadata: what is read of a v1 frame, by the index of its offset. */
const V1 = { channel: 0, header: 1, parent: 2, metadata: 3, content: 4 } as const;
const OPCODE = { continuation: 0, text: 1, binary: 2 } as const;

export class RequestReader {
  readonly #found: (request: SeenRequest) => void;
  #header: number[] = [];
  #mask: readonly number[] = [];
  #payloadLeft = 0;
  /** Where in the frame's payload the next byte is, for the mask. */
  #at = 0;
  #isFinal = false;
  #isData = false;
  /** Of the message that has begun, its first bytes; null when it is of no interest. */
  #message: { readonly opcode: number; readonly chunks: Buffer[]; bytes: number } | null = null;

  constructor(found: (request: SeenRequest) => void) {
    this.#found = found;
  }

  take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, chunk.length - at);
        this.#keep(chunk.subarray(at, at + taken));
        this.#payloadLeft -= taken;
        this.#at += taken;
        at += taken;
      } else {
        this.#header.push(chunk[at++] ?? 0);
        if (!this.#begin()) continue;
      }
      if (this.#payloadLeft === 0) this.#frameEnded();
    }
  }

  /** True once the frame's header is whole. */
  #begin(): boolean {
    const [first = 0, second] = this.#header;
    if (second === undefined) return false;
    const short = second & 0x7f;
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
    const maskBytes = second & 0x80 ? 4 : 0;
    if (this.#header.length < 2 + lengthBytes + maskBytes) return false;
    const extended = this.#header.slice(2, 2 + lengthBytes);
    this.#payloadLeft = lengthBytes === 0 ? short : extended.reduce((sum, byte) => sum * 256 + byte, 0);
    this.#mask = this.#header.slice(2 + lengthBytes);
    this.#header = [];
    this.#at = 0;
    this.#isFinal = (first & 0x80) !== 0;
    const opcode = first & 0x0f;
    this.#isData = opcode <= OPCODE.binary;
    // Bits of extensions: the two ends have agreed on something that is not known here.
    const isPlain = (first & 0x70) === 0;
    if (this.#isData && opcode !== OPCODE.continuation)
      this.#message = isPlain ? { opcode, chunks: [], bytes: 0 } : null;
    return true;
  }

  #keep(part: Buffer): void {
    if (!this.#isData || this.#message === null) return;
    const wanted = part.subarray(0, Math.max(LOOKED_AT_BYTES - this.#message.bytes, 0));
    if (wanted.length === 0) return;
    const plain = Buffer.from(wanted);
    if (this.#mask.length === 4)
      for (let index = 0; index < plain.length; index++)
        plain[index] = (plain[index] ?? 0) ^ (this.#mask[(this.#at + index) % 4] ?? 0);
    this.#message.chunks.push(plain);
    this.#message.bytes += plain.length;
  }

  #frameEnded(): void {
    if (!this.#isData || !this.#isFinal) return;
    const message = this.#message;
    this.#message = null;
    if (message === null) return;
    const bytes = Buffer.concat(message.chunks);
    const request = message.opcode === OPCODE.binary ? requestOfV1(bytes) : requestOfText(bytes);
    if (request !== null) this.#found(request);
  }
}

/** @param bytes the beginning of a frame as `v1.kernel.websocket.jupyter.org` has it */
function requestOfV1(bytes: Buffer): SeenRequest | null {
  try {
    const offset = (index: number): number => Number(bytes.readBigUInt64LE(8 * (1 + index)));
    const part = (index: number): Buffer => {
      const [start, end] = [offset(index), offset(index + 1)];
      if (!(start <= end && end <= bytes.length)) throw new RangeError('not all of it is here');
      return bytes.subarray(start, end);
    };
    if (part(V1.channel).toString('latin1') !== 'shell') return null;
    return requestOf(parseHeader(part(V1.header)), JSON.parse(part(V1.metadata).toString('utf8')));
  } catch {
    return null;
  }
}

/** Clients of Jupyter's older protocol write a message as one JSON text. */
function requestOfText(bytes: Buffer): SeenRequest | null {
  try {
    const { header, metadata } = JSON.parse(bytes.toString('utf8')) as { header: unknown; metadata: unknown };
    return requestOf(parseHeader(Buffer.from(JSON.stringify(header))), metadata);
  } catch {
    return null;
  }
}

function requestOf(
  { msg_id: msgId, msg_type: type }: { readonly msg_id: string; readonly msg_type: string },
  metadata: unknown
): SeenRequest | null {
  const { cellId } = (metadata ?? {}) as { cellId?: unknown };
  if (type !== 'execute_request' || msgId === '' || msgId.length > MAX_ID) return null;
  return { msgId, cellId: typeof cellId === 'string' && cellId.length <= MAX_ID ? cellId : null };
}
