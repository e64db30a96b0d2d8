/**
 * Requests of clients on their way to the kernel. They are in the journal, and wait here until a process can take them without
 * anything being missed of what they cause: the one that starts, or the next one where there is none.
 */
import { type KernelMessage, type MessageHeader, parseHeader, PART } from '../jupyter/kernel-message.js';

export class RequestQueue {
  #waiting: KernelMessage[] = [];
  #send: ((message: KernelMessage) => void) | null = null;

  add(message: KernelMessage): void {
    if (this.#send === null) this.#waiting.push(message);
    else this.#send(message);
  }

  /** Message ids of those that wait. */
  get ids(): ReadonlySet<string> {
    return new Set(this.#waiting.map(message => headerOf(message).msg_id));
  }

  /** Takes out the executions that wait; their message ids. */
  takeExecutions(): readonly string[] {
    const isExecution = (message: KernelMessage): boolean => headerOf(message).msg_type === 'execute_request';
    const taken = this.#waiting.filter(isExecution);
    this.#waiting = this.#waiting.filter(message => !isExecution(message));
    return taken.map(message => headerOf(message).msg_id);
  }

  /** Before all that wait: what the kernel may have been asked already. */
  addFirst(messages: readonly KernelMessage[]): void {
    this.#waiting.unshift(...messages);
  }

  /** The process takes requests: those that wait, in order, and from now on each at once. */
  open(send: (message: KernelMessage) => void): void {
    this.#send = send;
    for (const message of this.#waiting.splice(0)) send(message);
  }

  /** The process has ended; what comes is for the next. */
  close(): void {
    this.#send = null;
  }

  /** Nothing of what waits is for the next. */
  clear(): void {
    this.#waiting = [];
  }
}

function headerOf({ parts }: KernelMessage): MessageHeader {
  return parseHeader(parts[PART.header] ?? Buffer.alloc(0));
}
