/**
 * The Output widgets of ipywidgets. While such a widget has a `msg_id`, the output of that execution goes to the widget
 * instead of the cell; if several capture the same execution, the last one to begin gets it.
 */
import { outputsInState } from './kernel-output.js';
import { asObject } from '@tpulab/platform/json-text.js';
import { contentMentions, contentOf, type JournaledMessage } from './message-of-record.js';
import type { NotebookOutput } from '@tpulab/protocol';

/** The meaning of a comm message for Output widgets. */
interface WidgetChange {
  readonly commId: string;
  readonly kind: 'opened' | 'updated' | 'closed';
  /** The execution that it captures from now on, '' for none; null when the message does not change it. */
  readonly msgId: string | null;
  /** Outputs that the kernel itself has set; null when the message does not change them. */
  readonly outputs: readonly NotebookOutput[] | null;
}

/** `isKnown` distinguishes the comms of Output widgets from others. */
export function widgetChangeOf(
  message: JournaledMessage,
  exists: (commId: string) => boolean
): WidgetChange | null {
  const { msgType } = message;
  if (msgType === 'comm_open') {
    if (!contentMentions(message, 'OutputModel')) return null;
    const content = contentOf(message);
    const state = asObject(asObject(content['data'])['state']);
    const { comm_id: commId } = content;
    if (typeof commId !== 'string' || state['_model_name'] !== 'OutputModel') return null;
    return { commId, kind: 'opened', ...stateOf(state) };
  }
  if (msgType !== 'comm_msg' && msgType !== 'comm_close') return null;
  const content = contentOf(message);
  const { comm_id: commId } = content;
  if (typeof commId !== 'string' || !exists(commId)) return null;
  if (msgType === 'comm_close') return { commId, kind: 'closed', msgId: '', outputs: null };
  const data = asObject(content['data']);
  return data['method'] === 'update'
    ? { commId, kind: 'updated', ...stateOf(asObject(data['state'])) }
    : null;
}

function stateOf(state: Record<string, unknown>): Pick<WidgetChange, 'msgId' | 'outputs'> {
  const { msg_id: msgId, outputs } = state;
  return {
    msgId: typeof msgId === 'string' ? msgId : null,
    outputs: outputs === undefined ? null : outputsInState(outputs)
  };
}

/** Tracks which widget captures which execution. */
export class Captures {
  /** msg_id of an execution to the comms that capture it, the current one last. */
  readonly #stacks = new Map<string, string[]>();
  readonly #captured = new Map<string, string>();

  apply({ commId, msgId }: WidgetChange): void {
    if (msgId === null || this.#captured.get(commId) === msgId) return;
    this.#release(commId);
    if (msgId === '') return;
    this.#captured.set(commId, msgId);
    this.#stacks.set(msgId, [...(this.#stacks.get(msgId) ?? []), commId]);
  }

  /** The widget that gets the output of this execution; null when the cell itself does. */
  by(msgId: string): string | null {
    return this.#stacks.get(msgId)?.at(-1) ?? null;
  }

  of(commId: string): string | null {
    return this.#captured.get(commId) ?? null;
  }

  clear(): void {
    this.#stacks.clear();
    this.#captured.clear();
  }

  /** For the index file, in the order in which they began. */
  toJSON(): [msgId: string, commIds: string[]][] {
    return [...this.#stacks];
  }

  static from(stacks: readonly (readonly [string, readonly string[]])[]): Captures {
    const captures = new Captures();
    for (const [msgId, commIds] of stacks) {
      captures.#stacks.set(msgId, [...commIds]);
      for (const commId of commIds) captures.#captured.set(commId, msgId);
    }
    return captures;
  }

  #release(commId: string): void {
    const msgId = this.#captured.get(commId);
    if (msgId === undefined) return;
    this.#captured.delete(commId);
    const rest = (this.#stacks.get(msgId) ?? []).filter(each => each !== commId);
    if (rest.length > 0) this.#stacks.set(msgId, rest);
    else this.#stacks.delete(msgId);
  }
}
