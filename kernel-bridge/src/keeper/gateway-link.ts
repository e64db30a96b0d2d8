/**
 * The keeper's end of the connection to one gateway. Unread data of a slow gateway is bounded: above a limit no more
 * records are pushed, the gateway is directed to the segment files, and telemetry and states wait for the socket.
 */
import type { Socket } from 'node:net';
import type { WrittenBatch } from '../journal/record-batch.js';
import type { KernelSnapshot, TelemetryRecord } from '../keeper-protocol/contract.js';
import {
  encodeFrame,
  encodeJsonFrame,
  FRAME_HEADER_BYTES,
  FrameDecoder,
  FrameType,
  writeFrameHeader
} from '../keeper-protocol/frames.js';
import type { KeeperEvent, Reply, LargeRecordRef } from '../keeper-protocol/messages.js';

/** About a hundred milliseconds of output of the fastest kernel. A single larger message may exceed it. */
const LAG_BYTES = 8 * 1024 * 1024;

interface LinkEvents {
  command(link: GatewayLink, body: Buffer): void;
  /** A v1 frame of a client. */
  readonly message: (frame: Buffer) => void;
  closed(link: GatewayLink, error: Error | null): void;
}

/** Supplies telemetry when the socket has room again. */
export interface TelemetrySource {
  readonly lastSeq: number;
  after(since: number): TelemetryRecord[];
}

export class GatewayLink {
  readonly #decoder = new FrameDecoder();
  #live = false;
  #telemetrySince: number | null = null;
  #laterState: KernelSnapshot | null = null;

  constructor(
    private readonly socket: Socket,
    private readonly telemetry: TelemetrySource,
    events: LinkEvents,
    private readonly lagBytes = LAG_BYTES
  ) {
    let failure: Error | null = null;
    socket.on('data', chunk => {
      try {
        this.#decoder.push(chunk, (type, body) => {
          if (type === FrameType.message) events.message(body);
          else events.command(this, body);
        });
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('drain', () => this.#drained());
    socket.on('error', error => (failure = error));
    socket.on('close', () => events.closed(this, failure));
  }

  /** Records are pushed from the next batch on. */
  goLive(): void {
    this.#live = true;
  }

  /** Pushes stored telemetry, then new telemetry. */
  startTelemetry(since: number): void {
    // Numbers beyond the last come from an earlier keeper of this kernel.
    this.#telemetrySince = Math.min(since, this.telemetry.lastSeq);
    this.#pushTelemetry();
  }

  reply(reply: Reply): void {
    this.socket.write(encodeJsonFrame(FrameType.reply, reply));
  }

  event(event: KeeperEvent): void {
    this.socket.write(encodeJsonFrame(FrameType.event, event));
  }

  state(snapshot: KernelSnapshot): void {
    if (this.#congested) {
      this.#laterState = snapshot;
    } else {
      this.event({ event: 'state', snapshot });
    }
  }

  /** `batch` was built with `prepareBatch`; `snapshot` is the state after its records, if it has changed. */
  records(batch: WrittenBatch, snapshot: KernelSnapshot | null): void {
    this.socket.cork();
    if (this.#mayPush(batch.firstSeq)) {
      this.socket.write(batch.buffer.subarray(batch.start - FRAME_HEADER_BYTES, batch.end));
    }
    if (snapshot !== null) this.state(snapshot);
    this.socket.uncork();
  }

  /** A large record has been written; the gateway reads it from its file. */
  stored(note: LargeRecordRef, snapshot: KernelSnapshot | null): void {
    this.socket.cork();
    if (this.#mayPush(note.seq)) this.event({ event: 'stored', ...note });
    if (snapshot !== null) this.state(snapshot);
    this.socket.uncork();
  }

  /** The history has a new message. */
  telemetryAdded(record: TelemetryRecord): void {
    if (this.#telemetrySince === record.seq - 1 && !this.#congested) this.#sendTelemetry(record);
    else this.#pushTelemetry();
  }

  /** Sends the written data, then ends. */
  end(): void {
    this.socket.end();
  }

  destroy(): void {
    this.socket.destroy();
  }

  get #congested(): boolean {
    return this.socket.writableLength > this.lagBytes;
  }

  /** Whether record `seq` is to be pushed. A gateway that does not keep up is notified once. */
  #mayPush(seq: number): boolean {
    if (this.#live && this.#congested) {
      this.#live = false;
      this.event({ event: 'lagging', fromSeq: seq });
    }
    return this.#live;
  }

  #drained(): void {
    const state = this.#laterState;
    this.#laterState = null;
    if (state !== null) this.state(state);
    this.#pushTelemetry();
  }

  #pushTelemetry(): void {
    if (this.#telemetrySince === null) return;
    for (const record of this.telemetry.after(this.#telemetrySince)) {
      if (this.#congested) return;
      this.#sendTelemetry(record);
    }
  }

  #sendTelemetry(record: TelemetryRecord): void {
    const seq = Buffer.allocUnsafe(8);
    seq.writeBigUInt64LE(BigInt(record.seq));
    this.socket.write(encodeFrame(FrameType.telemetry, seq, Buffer.from(record.json)));
    this.#telemetrySince = record.seq;
  }
}

/** Writes the frame header into the headroom of a batch, once for all gateways. */
export function prepareBatch(batch: WrittenBatch): WrittenBatch {
  writeFrameHeader(
    batch.buffer,
    batch.start - FRAME_HEADER_BYTES,
    FrameType.records,
    batch.end - batch.start
  );
  return batch;
}
