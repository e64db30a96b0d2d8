/** The framings of a channels socket: which one a client has, and how its frames are made and read. */
import { AckNote, type GatewayNote, NUMBERED_HEADER_BYTES, NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { Value } from '@sinclair/typebox/value';
import { decodeV1, encodeLegacy, WireError } from '../wire/index.js';

export const V1_SUBPROTOCOL = 'v1.kernel.websocket.jupyter.org';

/** In the order in which they are preferred. A client that offers none of them gets the legacy framing. */
export const SUBPROTOCOLS: readonly string[] = [NUMBERED_SUBPROTOCOL, V1_SUBPROTOCOL];

export type Framing = 'numbered' | 'v1' | 'legacy';

export function framingOf(subprotocol: string): Framing {
  if (subprotocol === NUMBERED_SUBPROTOCOL) return 'numbered';
  return subprotocol === V1_SUBPROTOCOL ? 'v1' : 'legacy';
}

/** A v1 frame behind the number of its record. */
export function numberedFrame(seq: number, v1: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(NUMBERED_HEADER_BYTES + v1.length);
  frame.writeBigUInt64LE(BigInt(seq), 0);
  frame.set(v1, NUMBERED_HEADER_BYTES);
  return frame;
}

/** A message that is in no journal, for a client with this framing. */
export function madeFrame(framing: Framing, v1: Buffer): string | Buffer {
  if (framing === 'numbered') return numberedFrame(0, v1);
  return framing === 'v1' ? v1 : encodeLegacy(decodeV1(v1));
}

export function noteFrame(note: GatewayNote): string {
  return JSON.stringify(note);
}

/** The number that a client of ours acknowledges. Throws `frame_malformed`. */
export function parseAck(text: string): number {
  let note: unknown;
  try {
    note = JSON.parse(text);
  } catch (cause) {
    throw new WireError('frame_malformed', 'A text frame on numbered channels must be a note in JSON.', {
      cause
    });
  }
  if (!Value.Check(AckNote, note)) {
    throw new WireError('frame_malformed', 'The only note that a client may send is {"op":"ack","seq":N}.');
  }
  return note.seq;
}
