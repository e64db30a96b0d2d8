/** Where in the journal the outputs of an execution or a widget are, as messages come. */
import { type Execution, MAX_CAPTURED, type OutputWidget } from './execution.js';

type Shown = Pick<Execution, 'startSeq' | 'lastSeq' | 'changedSeq' | 'clearPending'>;

/** `startSeq`: where reading may begin when everything before has been cleared. */
export function shown(target: Shown, startSeq: number, seq: number): void {
  if (target.clearPending) target.startSeq = startSeq;
  target.clearPending = false;
  target.lastSeq = target.changedSeq = seq;
}

export function cleared(target: Shown, wait: boolean, startSeq: number, seq: number): void {
  target.clearPending = wait;
  if (!wait) target.startSeq = startSeq;
  target.lastSeq = target.changedSeq = seq;
}

/** The widget has captured something of this execution. */
export function capture(widget: OutputWidget, msgId: string): void {
  if (widget.msgIds.includes(msgId)) return;
  widget.msgIds.push(msgId);
  if (widget.msgIds.length > MAX_CAPTURED) widget.msgIds.shift();
}
