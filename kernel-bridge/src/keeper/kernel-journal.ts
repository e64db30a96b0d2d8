/** Writes messages to the kernel's journal: which record, how soon it must be durable, how dear it is. */
import { JournalWriter, type JournalWriterOptions } from '../journal/journal-writer.js';
import { FROM_CLIENT, type GapRecord, RecordChannel, type RestartRecord } from '../journal/record.js';
import { type ChannelName, type KernelMessage, PART } from '../jupyter/kernel-message.js';
import { v1Pieces } from '../jupyter/v1-frame.js';
import { FRAME_HEADER_BYTES } from '../keeper-protocol/frames.js';

const CHANNEL: Readonly<Record<ChannelName, number>> = RecordChannel;

/** Without these a client waits for ever, or cannot say what an output belongs to. */
const ESSENTIAL_ON_IOPUB: ReadonlySet<string> = new Set(['status', 'execute_input', 'error']);

export type KernelJournalOptions = Pick<
  JournalWriterOptions,
  'onWritten' | 'onStored' | 'onFault' | 'onTrimmed' | 'maxBytes' | 'highWaterMark'
>;

/** Nobody sees so short a delay, and only output of a flood has it; what ends or begins something is written at once. */
const GATHER_MS = 8;

export class KernelJournal implements AsyncDisposable {
  private constructor(private readonly writer: JournalWriter) {}

  static async open(dir: string, options: KernelJournalOptions): Promise<KernelJournal> {
    const writing = { headroom: FRAME_HEADER_BYTES, coalesceMs: GATHER_MS };
    return new KernelJournal(await JournalWriter.open(dir, { ...options, ...writing }));
  }

  get lastSeq(): number {
    return this.writer.lastSeq;
  }

  get cuts(): JournalWriter['cuts'] {
    return this.writer.cuts;
  }

  fromKernel({ channel, parts }: KernelMessage, msgType: string, status: string | null): void {
    this.writer.append(CHANNEL[channel], v1Pieces(channel, parts), {
      durable: msgType === 'execute_reply' || msgType === 'error' || status === 'idle',
      essential: channel !== 'iopub' || ESSENTIAL_ON_IOPUB.has(msgType)
    });
  }

  /** `frame` is the client's own v1 frame; `after` sends it on. */
  fromClient(channel: ChannelName, frame: Buffer, after: () => void): void {
    this.writer.append(CHANNEL[channel] | FROM_CLIENT, [frame], { essential: true, after });
  }

  /** A status that the bridge itself made. */
  ownStatus(parts: readonly Buffer[]): void {
    this.writer.append(RecordChannel.iopub, v1Pieces('iopub', parts), { durable: true, essential: true });
  }

  /** For readers of the journal. Clients hear what the kernel says about its end, and then the next process. */
  restart(reason: string): void {
    const record: RestartRecord = { type: 'restart', reason };
    this.writer.append(RecordChannel.bridge, [Buffer.from(JSON.stringify(record))], {
      durable: true,
      essential: true
    });
  }

  /** Messages are missing that the journal never got; clients are shown it at this place. */
  gap(gap: GapRecord): void {
    this.writer.append(RecordChannel.bridge, [Buffer.from(JSON.stringify(gap))], {
      durable: true,
      essential: true
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.writer.close();
  }
}

/** `execution_state` of a status message; null for any other message. */
export function statusOf(msgType: string, message: KernelMessage): string | null {
  if (msgType !== 'status') {
    return null;
  }
  try {
    const content = JSON.parse((message.parts[PART.content] ?? Buffer.alloc(0)).toString('utf8')) as unknown;
    const state = (content as { execution_state?: unknown } | null)?.execution_state;
    return typeof state === 'string' ? state : null;
  } catch {
    return null; // signed, but not JSON: it is passed on as it is and changes no state
  }
}
