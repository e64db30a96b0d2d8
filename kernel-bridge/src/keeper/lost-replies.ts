/**
 * Replies that nobody will ever get: the kernel sent them while it had no keeper that could hear, or the journal lost them after
 * the kernel had forgotten them. Whoever asked would wait for ever, so the keeper answers in the kernel's place.
 */
import type { JournalReader } from '../journal/journal-reader.js';
import type { KernelMessage, MessageHeader } from '../jupyter/kernel-message.js';
import { newMessage } from '../jupyter/new-message.js';
import { type OpenRequest, readJournalTail } from './journal-tail.js';

const UNKNOWN = { ready: false, session: null, busy: [] };

export class LostReplies {
  readonly #answered = new Set<string>();

  /** `to`: the last record before this keeper. */
  constructor(
    private readonly journal: JournalReader,
    private readonly to: number
  ) {}

  /** Of each reply that this keeper gets on shell. */
  heard(parent: MessageHeader): void {
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
