/**
 * Numbered channels: the protocol of our clients on `/api/kernels/<id>/channels`, an alternative to Jupyter's v1
 * subprotocol.
 *
 * A client offers `NUMBERED_SUBPROTOCOL`. Binary frames from the gateway are `u64 little-endian seq | v1 frame`: the number
 * of the record in the kernel's journal, or 0 for messages that the gateway itself created and will not send again. Binary
 * frames to the gateway are v1 frames. Text frames are the notes below. A client stores the last number that it has
 * processed, reports it in `ack`, and reconnects with `?resume=<that number>`: it then gets every later message, and no
 * earlier one. If a journal was damaged while its kernel continued, numbers may have changed; a client that adds
 * `last=<channel>:<msg_id>` for the last message of each channel is recognised by those messages.
 */
import { type Static, Type } from '@sinclair/typebox';

export const NUMBERED_SUBPROTOCOL = 'v1.numbered.kernel.websocket.tpulab';

/** Bytes before the v1 frame in a binary frame of the gateway. */
export const NUMBERED_HEADER_BYTES = 8;

const Seq = Type.Integer({ minimum: 0, description: 'number of a record in the journal of the kernel' });

/** First frame from the gateway. */
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

/** The client has everything up to `position`; the following messages are live. Sent again each time it has caught up. */
export const LiveNote = Type.Object({ op: Type.Literal('live'), position: Seq });
export type LiveNote = Static<typeof LiveNote>;

/** From the client: it has processed everything up to `seq`, and will not request that again. */
export const AckNote = Type.Object({ op: Type.Literal('ack'), seq: Seq }, { additionalProperties: false });
export type AckNote = Static<typeof AckNote>;

export const GatewayNote = Type.Union([AttachedNote, LiveNote]);
export type GatewayNote = Static<typeof GatewayNote>;

/**
 * The type of a display that counts omitted output. A client that connects with `?bounded=true` is sent outputs at a rate
 * that a page can show: faster messages are joined, and text and displays beyond a cell's limit are counted in such a
 * display. Its `text/plain` is the last lines.
 */
export const FLOOD_MIME = 'application/vnd.tpulab.flood+json';

export interface FloodNote {
  readonly kernelId: string;
  /** `msg_id` of the request to which the output belongs. */
  readonly msgId: string;
  /** The journal record at which the output begins. */
  readonly from: number;
  /** Lines of all text of this execution so far, including the shown text. */
  readonly lines: number;
  /** Bytes of all text, and of the displays that are left out. */
  readonly bytes: number;
  /** Displays that are not shown. */
  readonly leftOut: number;
  readonly isRunning: boolean;
}
