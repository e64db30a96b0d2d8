/**
 * Reads the end of a kernel's journal for a keeper that takes over: the kernel's running requests, which of its messages
 * have been written, and which requests it has not begun to answer.
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
  /** The kernel's last message on each channel. */
  readonly last: Readonly<Partial<Record<ChannelName, string>>>;
  /** Ids of all messages of the kernel on shell, control and stdin. */
  readonly answers: ReadonlySet<string>;
  /** Unix milliseconds of the last record; null when there is none. */
  readonly lastTimeMs: number | null;
  /** Requests of clients to which the kernel has not reacted, in order. */
  readonly unanswered: readonly KernelMessage[];
  /** Requests on shell without a reply, in order. Subshell requests are left out: they are answered in any order. */
  readonly open: readonly OpenRequest[];
}

export interface OpenRequest {
  readonly header: MessageHeader;
  /** `header` as the client wrote it. */
  readonly text: string;
}

/**
 * Continues reading from a record; `before` is the state at the previous record, and `to` is the last record, by default
 * the newest.
 */
export async function readJournalTail(
  journal: JournalReader,
  from: number,
  before: RestorableState,
  to = Infinity
): Promise<JournalTail> {
  const tail = new TailReader(before);
  for await (const batch of journal.readAcross(from, { to, ended: true })) {
    for (const record of batch) if (record.missing === undefined) tail.take(record);
  }
  return tail.result;
}

/** How far back executions are searched, in records and in bytes of their payloads. */
const LOOKBACK_RECORDS = 5_000;
const LOOKBACK_BYTES = 32 * 1024 * 1024;

const BLOCK = 500;

/** Ids of the executions requested in the newest records of a journal, the oldest first. */
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
      // an earlier keeper accepted and stored it; this one ignores it
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
      // Another process: the previous one's running requests ended with it.
      this.#state = restored({ ready: false, session: header.session, busy: [] });
      this.#ready = false;
    }
    this.#state.seenSession(header.session);
    this.#last[message.channel] = header.msg_id;
    if (message.channel !== 'iopub') this.#answers.add(header.msg_id);
    const parent = parentOf(message);
    if (parent !== null) {
      this.#ready = true; // Only a ready kernel gets requests.
      this.#requested.delete(parent.msg_id);
      if (message.channel === 'shell') this.#open.delete(parent.msg_id);
    }
    const status = statusOf(header.msg_type, message);
    if (status === 'restarting') {
      // Requests that the previous process had not begun are not passed to its successor.
      this.#trimRequests();
    }
    if (status !== null && message.channel === 'iopub') {
      this.#state.status(status, parent, textOf(message, PART.parentHeader));
    }
  }
}

function restored(state: RestorableState): KernelState {
  const made = new KernelState(() => undefined);
  // The busy state is restored only for a running kernel.
  made.restore({ ...state, ready: true });
  return made;
}

/** A password was not stored, and so cannot be resent. */
function isRedacted(message: KernelMessage): boolean {
  const { tpulab } = metadataOf(message) as { tpulab?: { redacted?: unknown } };
  return tpulab?.redacted === true;
}

const UNKNOWN = { ready: false, session: null, busy: [] };

/**
 * Replies that will never arrive: the kernel sent them while it had no keeper to receive them, or the journal lost them after
 * the kernel had dropped them. The client would wait forever, so the keeper answers in the kernel's place.
 */
export class LostReplies {
  readonly #answered = new Set<string>();

  /** `to`: the last record before this keeper. */
  constructor(
    private readonly journal: JournalReader,
    private readonly to: number
  ) {}

  /** Called for each reply that this keeper receives on shell. */
  replied(parent: MessageHeader): void {
    this.#answered.add(parent.msg_id);
  }

  /**
   * Requests that will never get a reply, once the kernel has answered all earlier ones; none when the kernel ends before
   * that. Reads the whole journal: a waiting request may be much older than the checkpoint.
   */
  async find(kernel: { caughtUp(): Promise<boolean> }): Promise<readonly OpenRequest[]> {
    const { open } = await readJournalTail(this.journal, 1, UNKNOWN, this.to);
    if (open.length === 0 || !(await kernel.caughtUp())) return [];
    return open.filter(({ header }) => !this.#answered.has(header.msg_id));
  }
}

/** A kernel sends the idle status right after the reply. */
export const IDLE_TIMEOUT_MS = 2_000;

/**
 * Finds requests whose idle status was dropped: the publisher of a stock ipykernel drops messages that are more than 1,000
 * ahead of its reader. Iopub keeps its order, so a missing idle status will never arrive once the status of a later request
 * has.
 */
export class DroppedIdles {
  readonly #replied = new Map<string, { readonly request: OpenRequest; readonly at: number }>();
  #timer: NodeJS.Timeout | null = null;

  /**
   * `passed` sends the kernel a request and resolves with whether its idle status arrived on iopub; `dropped` is called for
   * each request whose idle status did not arrive first.
   */
  constructor(
    private readonly passed: () => Promise<boolean>,
    private readonly dropped: (request: OpenRequest) => void
  ) {}

  /** The kernel has replied, and the idle status has not arrived on iopub yet. */
  replied(request: OpenRequest): void {
    this.#replied.set(request.header.msg_id, { request, at: performance.now() });
    this.#timer ??= setTimeout(() => void this.#check(), IDLE_TIMEOUT_MS);
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
    const late = [...this.#replied.values()].filter(({ at }) => now - at >= IDLE_TIMEOUT_MS / 2);
    const isPassed = late.length > 0 && (await this.passed());
    if (timer !== this.#timer) return;
    for (const { request } of isPassed ? late : []) {
      if (this.#replied.delete(request.header.msg_id)) this.dropped(request);
    }
    this.#timer = this.#replied.size === 0 ? null : setTimeout(() => void this.#check(), IDLE_TIMEOUT_MS);
  }
}

/** The content of a reply; `lost`: the process can no longer answer. */
export interface ReplacementReply {
  readonly content: Readonly<Record<string, unknown>>;
  readonly lost: boolean;
}

const LOST = {
  ename: 'ReplyLost',
  evalue:
    'The reply to this request was lost. Check whether the cell ran, and run it again if you need its result.',
  traceback: [] as string[]
};

/** For clients of a process that has ended. */
export function kernelEnded(reason: string): ReplacementReply {
  const evalue = `The kernel ended before it answered: ${reason}.`;
  // The fields of an error that nbclient and papermill show.
  return failed({ ename: 'DeadKernelError', evalue, traceback: [`DeadKernelError: ${evalue}`] });
}

/** The reply of a kernel to requests that wait behind an interrupted cell. */
export const ABORTED: ReplacementReply = {
  content: { status: 'aborted', execution_count: null },
  lost: false
};

function failed(why: typeof LOST): ReplacementReply {
  return { content: { status: 'error', ...why, execution_count: null }, lost: true };
}

/** The replacement of the lost reply, and of the idle status after it. */
export function replacementMessages(
  { header, text }: OpenRequest,
  session: string,
  { content, lost }: ReplacementReply = failed(LOST)
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
