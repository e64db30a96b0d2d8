/**
 * Requests about a kernel's state are answered beside a running cell.
 *
 * A page that is opened while a cell runs asks for the kernel's information and its widgets (`kernel_info_request`,
 * `comm_info_request`, `jupyter.widget.control`). On the main shell these wait until the cell has ended, so they, and
 * no others, go to a subshell of the gateway: the kernel itself answers, to any client, with the current state of its
 * widgets. A kernel without subshells gets them on its main shell.
 */
import { type JournalRecord, RecordChannel } from '../journal/record.js';
import { guarded } from '@tpulab/platform/guard.js';
import {
  contentOf,
  decodeV1,
  encodeV1,
  headerOf,
  ifMessage,
  type KernelMessage,
  parentOf,
  PART
} from '../jupyter/index.js';
import type { WatchedMessage } from './message-watch.js';
import type { ClientRequest } from './refusal.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

/** From ipywidgets 8: the kernel sends the state of all widgets over such a comm. */
const CONTROL_TARGET = 'jupyter.widget.control';
/** A page waits for these before it sends anything else. */
const KERNEL_STATE_REQUESTS: ReadonlySet<string> = new Set(['kernel_info_request', 'comm_info_request']);
/** A kernel that supports subshells creates one in milliseconds; another kernel may not answer at all. */
const SUBSHELL_TIMEOUT_MS = 5_000;
/** Enough for the pages that send such requests at the same time. */
const MAX_IDS = 1_000;

export interface StateRequestActions {
  /** Whether the kernel is running a request now. */
  isBusy(): boolean;
  /** Requests a subshell from the kernel; returns the `msg_id` of the request. */
  createSubshell(): string;
  send(msgId: string, frame: Buffer): void;
  /** Waiting requests cannot be sent. */
  readonly failed: (error: unknown) => void;
  /** A subshell's answer has ended with an idle status, which clients mistake for the cell's. */
  answered(): void;
}

interface Waiting {
  readonly msgId: string;
  readonly message: KernelMessage;
}

export class StateRequests implements Disposable {
  /** Control comms of pages, opened on the subshell. */
  readonly #comms = new Set<string>();
  /** Requests whose idle status has not arrived. */
  readonly #open = new Set<string>();
  #waiting: Waiting[] = [];
  #requestId: string | null = null;
  #timer: NodeJS.Timeout | null = null;
  #subshell: string | null = null;
  #isUnsupported = false;

  constructor(private readonly actions: StateRequestActions) {}

  /** Whether this request goes to the subshell. If so, it has been sent, or will be sent once the subshell exists. */
  take({ message, header }: ClientRequest): boolean {
    if (message.channel !== 'shell' || this.#isUnsupported || typeof header.subshell_id === 'string') {
      return false;
    }
    if (!this.#requestsState(message, header.msg_type)) return false;
    remember(this.#open, header.msg_id);
    if (this.#subshell === null) {
      this.#waiting.push({ msgId: header.msg_id, message });
      this.#ensureSubshell();
    } else {
      this.#send({ msgId: header.msg_id, message });
    }
    return true;
  }

  /** Handles a message on control. */
  watched({ channel, fromClient, header, parent, content }: WatchedMessage): void {
    if (channel !== 'control') return;
    if (fromClient) {
      const deleted = header.msg_type === 'delete_subshell_request' ? content['subshell_id'] : null;
      if (deleted !== null && deleted === this.#subshell) this.#subshell = null;
    } else if (parent !== null && parent.msg_id === this.#requestId) {
      const id = content['subshell_id'];
      this.#settle(content['status'] === 'ok' && typeof id === 'string' ? id : null);
    }
  }

  /** Handles any record, in order. Parsed only while an answer is pending. */
  passed({ channel, payload }: JournalRecord): void {
    if (this.#open.size === 0 || channel !== RecordChannel.iopub) return;
    const parent = parentOfIdle(payload);
    if (parent !== null && this.#open.delete(parent)) this.actions.answered();
  }

  /** The process is new, and has none of the old one's subshells. */
  restarted(): void {
    this.#stopTimer();
    this.#comms.clear();
    this.#open.clear();
    this.#waiting = [];
    this.#requestId = this.#subshell = null;
    this.#isUnsupported = false;
  }

  [Symbol.dispose](): void {
    this.#stopTimer();
  }

  #requestsState(message: KernelMessage, msgType: string): boolean {
    if (KERNEL_STATE_REQUESTS.has(msgType)) return this.actions.isBusy();
    if (msgType !== 'comm_open' && msgType !== 'comm_msg' && msgType !== 'comm_close') return false;
    if (msgType === 'comm_open' ? !this.actions.isBusy() : this.#comms.size === 0) return false;
    const { comm_id: commId, target_name: target } = contentOf(message);
    if (typeof commId !== 'string') return false;
    if (msgType === 'comm_close') return this.#comms.delete(commId);
    if (msgType === 'comm_open' && target === CONTROL_TARGET) remember(this.#comms, commId);
    return this.#comms.has(commId);
  }

  #ensureSubshell(): void {
    if (this.#requestId !== null) return;
    this.#timer = setTimeout(
      guarded(this.actions.failed, () => this.#giveUp()),
      SUBSHELL_TIMEOUT_MS
    );
    this.#requestId = this.actions.createSubshell();
  }

  /** A kernel that was only stalled creates the subshell later, and then gets such requests beside its cells. */
  #giveUp(): void {
    const requestId = this.#requestId;
    this.#settle(null);
    this.#requestId = requestId;
  }

  #settle(subshell: string | null): void {
    this.#stopTimer();
    this.#requestId = null;
    this.#subshell = subshell;
    this.#isUnsupported = subshell === null;
    if (this.#isUnsupported) {
      this.#comms.clear();
      // Requests that go to the main shell are answered like any others.
      this.#open.clear();
    }
    for (const waiting of this.#waiting.splice(0)) this.#send(waiting);
  }

  #send({ msgId, message }: Waiting): void {
    let { parts } = message;
    if (this.#subshell !== null) {
      const headerOnSubshell = JSON.stringify({ ...headerOf(message), subshell_id: this.#subshell });
      parts = parts.with(PART.header, Buffer.from(headerOnSubshell));
    }
    this.actions.send(msgId, encodeV1({ ...message, parts }));
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

function remember(set: Set<string>, value: string): void {
  set.add(value);
  dropOldest(set, MAX_IDS);
}

function parentOfIdle(payload: Buffer): string | null {
  return ifMessage(() => {
    const message = decodeV1(payload);
    const isIdle =
      headerOf(message).msg_type === 'status' && contentOf(message)['execution_state'] === 'idle';
    return isIdle ? (parentOf(message)?.msg_id ?? null) : null;
  });
}
