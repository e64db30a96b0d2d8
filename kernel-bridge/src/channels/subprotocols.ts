/** The framings of a channels socket: which one a client uses, and how its frames are built and parsed. */
import { AckNote, type GatewayNote, NUMBERED_HEADER_BYTES, NUMBERED_SUBPROTOCOL } from '@tpulab/protocol';
import { Value } from '@sinclair/typebox/value';
import { decodeV1, encodeLegacy, WireError } from '../jupyter/index.js';

export const V1_SUBPROTOCOL = 'v1.kernel.websocket.jupyter.org';

/** In order of preference. A client that offers none of them gets the legacy framing. */
export const SUBPROTOCOLS: readonly string[] = [NUMBERED_SUBPROTOCOL, V1_SUBPROTOCOL];

export type Framing = 'numbered' | 'v1' | 'legacy';

export function framingOf(subprotocol: string): Framing {
  if (subprotocol === NUMBERED_SUBPROTOCOL) return 'numbered';
  return subprotocol === V1_SUBPROTOCOL ? 'v1' : 'legacy';
}

/** The prefix of a v1 frame on numbered channels: the number of its record. */
export function numberOf(seq: number): Buffer {
  const number = Buffer.allocUnsafe(NUMBERED_HEADER_BYTES);
  number.writeUInt32LE(seq >>> 0, 0);
  number.writeUInt32LE(Math.floor(seq / 0x1_0000_0000), 4);
  return number;
}

/** Encodes a message that is not in a journal for a client with this framing. */
export function madeFrame(framing: Framing, v1: Buffer): string | Buffer {
  if (framing === 'numbered') return Buffer.concat([numberOf(0), v1]);
  return framing === 'v1' ? v1 : encodeLegacy(decodeV1(v1));
}

export function noteFrame(note: GatewayNote): string {
  return JSON.stringify(note);
}

/** The record number that a numbered client acknowledges. Throws `frame_malformed`. */
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
