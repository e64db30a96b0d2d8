/**
 * What the end of a kernel's journal says to a keeper that takes over: what the kernel is doing, which of its messages have
 * been written, and which requests it has not begun to answer.
 */
import type { JournalReader } from '../journal/journal-reader.js';
import { FROM_CLIENT, isRestart, type JournalRecord, RecordChannel } from '../journal/record.js';
import {
  type ChannelName,
  headerOf,
  ifMessage,
  type KernelMessage,
  type MessageHeader,
  metadataOf,
  newMessage,
  parentOf,
  PART,
  textOf
} from '../jupyter/kernel-message.js';
import { decodeV1 } from '../jupyter/v1-frame.js';
import type { RestorableState } from './checkpoint.js';
import { statusOf } from './journal-entries.js';
import { KernelState } from './kernel-state.js';

export interface JournalTail {
  readonly state: RestorableState;
  /** The last message of the kernel on each channel. */
  readonly last: Readonly<Partial<Record<ChannelName, string>>>;
  /** Ids of all messages of the kernel on shell, control and stdin. */
  readonly answers: ReadonlySet<string>;
  /** Unix milliseconds of the last record; null when there is none. */
  readonly lastTimeMs: number | null;
  /** Requests of clients of which the kernel has not said a word, in order. */
  readonly unanswered: readonly KernelMessage[];
  /** Requests on shell without a reply, in order. Those of subshells are left out: they are answered in no order. */
  readonly open: readonly OpenRequest[];
}

export interface OpenRequest {
  readonly header: MessageHeader;
  /** `header` as the client wrote it. */
  readonly text: string;
}

/** Reads on from a record, `before` being the state as of the one before it; `to` is the last record, without it the newest. */
export async function readJournalTail(
  journal: JournalReader,
  from: number,
  before: RestorableState,
  to = Infinity
): Promise<JournalTail> {
  const tail = new TailReader(before);
  for await (const batch of journal.readAcross(from, { to, ended: true })) {
    for (const record of batch) {
      if (record.missing === undefined) tail.take(record);
    }
  }
  return tail.result;
}

/** How far back executions are looked for, in records and in bytes of their payloads. */
const LOOKBACK_RECORDS = 5_000;
const LOOKBACK_BYTES = 32 * 1024 * 1024;

const BLOCK = 500;

/** Ids of the executions that the newest records of a journal ask for, the oldest first. */
export async function lastExecutions(journal: JournalReader, lastSeq: number): Promise<string[]> {
  let found: string[] = [];
  let bytes = 0;
  for (
    let to = lastSeq;
    to > Math.max(0, lastSeq - LOOKBACK_RECORDS) && bytes < LOOKBACK_BYTES;
    to -= BLOCK
  ) {
    const block: string[] = [];
    for await (const batch of journal.readAcross(Math.max(1, to - BLOCK + 1), { to, newest: () => to })) {
      for (const record of batch) {
        bytes += record.payload.length;
        const msgId = executionIn(record);
        if (msgId !== null) block.push(msgId);
      }
    }
    found = [...block, ...found];
  }
  return found;
}

function executionIn({ channel, payload }: JournalRecord): string | null {
  if (channel !== (RecordChannel.shell | FROM_CLIENT)) return null;
  const header = ifMessage(() => headerOf(decodeV1(payload)));
  return header?.msg_type === 'execute_request' ? header.msg_id : null;
}

class TailReader {
  #state: KernelState;
  #ready: boolean;
  #lastTimeMs: number | null = null;
  readonly #last: Partial<Record<ChannelName, string>> = {};
  readonly #answers = new Set<string>();
  readonly #requested = new Map<string, KernelMessage>();
  readonly #open = new Map<string, OpenRequest>();

  constructor(before: RestorableState) {
    this.#state = restored(before);
    this.#ready = before.ready;
  }

  get result(): JournalTail {
    return {
      state: { ...this.#state.restorable, ready: this.#ready },
      last: this.#last,
      answers: this.#answers,
      lastTimeMs: this.#lastTimeMs,
      unanswered: [...this.#requested.values()],
      open: [...this.#open.values()]
    };
  }

  take(record: JournalRecord): void {
    const { channel, payload, timeNs } = record;
    this.#lastTimeMs = Number(timeNs / 1_000_000n);
    if (channel === RecordChannel.bridge) {
      if (isRestart(record)) this.#trimRequests();
      return;
    }
    try {
      const message = decodeV1(payload);
      const header = headerOf(message);
      if ((channel & FROM_CLIENT) === 0) this.#addAnswer(message, header);
      else this.#addRequest(message, header);
    } catch {
      // it passed the checks of an earlier keeper and was kept; it says nothing to this one
    }
  }

  #addRequest(message: KernelMessage, header: MessageHeader): void {
    if (isRedacted(message)) return;
    // Copies: the payload is a view into a chunk of the file.
    const parts = message.parts.map(part => Buffer.from(part));
    this.#requested.set(header.msg_id, { channel: message.channel, parts });
    if (message.channel === 'shell' && header.msg_type.endsWith('_request') && header.subshell_id == null) {
      this.#open.set(header.msg_id, { header, text: textOf(message, PART.header) });
    }
  }

  #trimRequests(): void {
    this.#requested.clear();
    this.#open.clear();
  }

  #addAnswer(message: KernelMessage, header: MessageHeader): void {
    const { session } = this.#state;
    if (session !== null && header.session !== session) {
      // Another process: what the one before was busy with has ended with it.
      this.#state = restored({ ready: false, session: header.session, busy: [] });
      this.#ready = false;
    }
    this.#state.spoke(header.session);
    this.#last[message.channel] = header.msg_id;
    if (message.channel !== 'iopub') this.#answers.add(header.msg_id);
    const parent = parentOf(message);
    if (parent !== null) {
      this.#ready = true; // requests are passed on to kernels that are
      this.#requested.delete(parent.msg_id);
      if (message.channel === 'shell') this.#open.delete(parent.msg_id);
    }
    const status = statusOf(header.msg_type, message);
    if (status === 'restarting') {
      // What it was asked and had not begun is not for its successor.
      this.#trimRequests();
    }
    if (status !== null && message.channel === 'iopub') {
      this.#state.status(status, parent, textOf(message, PART.parentHeader));
    }
  }
}

function restored(state: RestorableState): KernelState {
  const made = new KernelState(() => undefined);
  // Busy is kept only by a kernel that runs.
  made.restore({ ...state, ready: true });
  return made;
}

/** A password was not kept, and so cannot be sent again. */
function isRedacted(message: KernelMessage): boolean {
  const { tpulab } = metadataOf(message) as { tpulab?: { redacted?: unknown } };
  return tpulab?.redacted === true;
}

const UNKNOWN = { ready: false, session: null, busy: [] };

/**
 * Replies that nobody will ever get: the kernel sent them while it had no keeper that could hear, or the journal lost them after
 * the kernel had forgotten them. Whoever asked would wait for ever, so the keeper answers in the kernel's place.
 */
export class LostReplies {
  readonly #answered = new Set<string>();

  /** `to`: the last record before this keeper. */
  constructor(
    private readonly journal: JournalReader,
    private readonly to: number
  ) {}

  /** Of each reply that this keeper gets on shell. */
  replied(parent: MessageHeader): void {
    this.#answered.add(parent.msg_id);
  }

  /**
   * Which requests will stay without a reply, once the kernel has answered all that it was asked; none when it ends before. Reads the
   * whole journal: what waited may have been asked long before the checkpoint.
   */
  async find(kernel: { caughtUp(): Promise<boolean> }): Promise<readonly OpenRequest[]> {
    const { open } = await readJournalTail(this.journal, 1, UNKNOWN, this.to);
    if (open.length === 0 || !(await kernel.caughtUp())) return [];
    return open.filter(({ header }) => !this.#answered.has(header.msg_id));
  }
}

/** A kernel sends the idle status right after the reply. */
export const IDLE_LATE_MS = 2_000;

/**
 * Finds requests whose idle status was dropped: the publisher of a stock ipykernel drops what is more than 1,000 messages ahead of its
 * reader. Iopub keeps its order, so an idle status that comes after the one of a later request will never come.
 */
export class DroppedIdles {
  readonly #replied = new Map<string, { readonly request: OpenRequest; readonly at: number }>();
  #timer: NodeJS.Timeout | null = null;

  /**
   * `passed` asks the kernel something and resolves with whether iopub has brought the idle status of that; `dropped` is called for each
   * request whose idle status did not come before.
   */
  constructor(
    private readonly passed: () => Promise<boolean>,
    private readonly dropped: (request: OpenRequest) => void
  ) {}

  /** The kernel has replied, and iopub has not brought the idle status yet. */
  replied(request: OpenRequest): void {
    this.#replied.set(request.header.msg_id, { request, at: performance.now() });
    this.#timer ??= setTimeout(() => void this.#check(), IDLE_LATE_MS);
  }

  idle(msgId: string): void {
    this.#replied.delete(msgId);
  }

  /** The process has ended. */
  clear(): void {
    this.#replied.clear();
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
  }

  async #check(): Promise<void> {
    const timer = this.#timer;
    const now = performance.now();
    const late = [...this.#replied.values()].filter(({ at }) => now - at >= IDLE_LATE_MS / 2);
    const isPassed = late.length > 0 && (await this.passed());
    if (timer !== this.#timer) return;
    for (const { request } of isPassed ? late : []) {
      if (this.#replied.delete(request.header.msg_id)) this.dropped(request);
    }
    this.#timer = this.#replied.size === 0 ? null : setTimeout(() => void this.#check(), IDLE_LATE_MS);
  }
}

/** What a reply says; `lost`: that the process cannot answer any more. */
export interface StandIn {
  readonly content: Readonly<Record<string, unknown>>;
  readonly lost: boolean;
}

const LOST = {
  ename: 'ReplyLost',
  evalue:
    'The reply to this request was lost. Check whether the cell ran, and run it again if you need its result.',
  traceback: [] as string[]
};

/** For those who asked a process that has ended. */
export function kernelEnded(reason: string): StandIn {
  const evalue = `The kernel ended before it answered: ${reason}.`;
  // What nbclient and papermill show of an error.
  return failed({ ename: 'DeadKernelError', evalue, traceback: [`DeadKernelError: ${evalue}`] });
}

/** As a kernel answers what waits behind a cell that is interrupted. */
export const ABORTED: StandIn = { content: { status: 'aborted', execution_count: null }, lost: false };

function failed(why: typeof LOST): StandIn {
  return { content: { status: 'error', ...why, execution_count: null }, lost: true };
}

/** What stands in for the lost reply, and for the idle status after it. */
export function standIns(
  { header, text }: OpenRequest,
  session: string,
  { content, lost }: StandIn = failed(LOST)
): { reply: KernelMessage; idle: KernelMessage } {
  const msgType = header.msg_type.replace(/_request$/, '_reply');
  const metadata = lost ? { tpulab: { replyLost: true } } : {};
  const about = { session, parent: text };
  const idle = { execution_state: 'idle' };
  return {
    reply: { channel: 'shell', parts: newMessage({ ...about, msgType, metadata, content }) },
    idle: { channel: 'iopub', parts: newMessage({ ...about, msgType: 'status', content: idle }) }
  };
}
