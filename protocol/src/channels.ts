/**
 * Numbered channels: what a client of ours speaks on `/api/kernels/<id>/channels` instead of Jupyter's v1 subprotocol.
 *
 * It offers `NUMBERED_SUBPROTOCOL`. Binary frames from the gateway are `u64 little-endian seq | v1 frame`: the number of the
 * record in the kernel's journal, 0 for what the gateway made itself and will not send again. Binary frames to the gateway are
 * v1 frames. Text frames are the notes below. A client keeps the last number that it has taken, says so in `ack`, and connects
 * again with `?resume=<that number>`: it then gets every later message, and none that it has. Where a journal was damaged while
 * its kernel ran on, numbers may have changed; a client that adds `last=<channel>:<msg_id>` for the last message of each
 * channel is recognised by those.
 */
import { type Static, Type } from '@sinclair/typebox';

export const NUMBERED_SUBPROTOCOL = 'v1.numbered.kernel.websocket.tpulab';

/** Bytes before the v1 frame in a binary frame of the gateway. */
export const NUMBERED_HEADER_BYTES = 8;

const Seq = Type.Integer({ minimum: 0, description: 'number of a record in the journal of the kernel' });

/** First frame of the gateway. */
export const AttachedNote = Type.Object({
  op: Type.Literal('attached'),
  position: Type.Integer({
    minimum: 0,
    description:
      'messages after this number follow; lower than what was asked for when the journal ends before, that is, numbers were lost with the machine’s power'
  }),
  newest: Seq
});
export type AttachedNote = Static<typeof AttachedNote>;

/** The client has everything up to `position`; what comes next is being said now. Sent again after each time it fell behind. */
export const LiveNote = Type.Object({ op: Type.Literal('live'), position: Seq });
export type LiveNote = Static<typeof LiveNote>;

/** From the client: it has taken everything up to `seq`, and will not ask for it again. */
export const AckNote = Type.Object({ op: Type.Literal('ack'), seq: Seq }, { additionalProperties: false });
export type AckNote = Static<typeof AckNote>;

export const GatewayNote = Type.Union([AttachedNote, LiveNote]);
export type GatewayNote = Static<typeof GatewayNote>;

/**
 * A client that connects with `?bounded=true` is sent outputs at a pace that a page can show: messages that come faster are joined, and
 * text and displays beyond what a cell can show are counted in a display of this type. Its `text/plain` is the last lines.
 */
export const FLOOD_MIME = 'application/vnd.tpulab.flood+json';

export interface FloodNote {
  readonly kernelId: string;
  /** Of the request whose output it is. */
  readonly msgId: string;
  /** Record of the journal from which on its output is. */
  readonly from: number;
  /** Of all text of this execution so far, that which is shown included. */
  readonly lines: number;
  /** Of all text, and of the displays that are left out. */
  readonly bytes: number;
  /** Displays that are not shown. */
  readonly leftOut: number;
  readonly isRunning: boolean;
}
