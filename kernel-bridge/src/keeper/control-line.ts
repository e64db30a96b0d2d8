/**
 * Commands to the agent in the kernel, over the connection that the agent opened for them: one JSON object per line. The agent
 * answers each immediately with a `control` message of the same id, and reports the result later.
 */
import type { Socket } from 'node:net';
import type { ControlCommand, ControlMessage } from '@tpulab/protocol';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import type { KeeperLog } from './keeper-log.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

/** An agent answers within milliseconds, unless the kernel's process is stopped or code in it blocks the interpreter. */
const ANSWER_MS = 8_000;
/** Limit of commands that wait for an answer. Only a client that repeats the same command exceeds it. */
const MAX_UNANSWERED = 256;
/** Limit of accepted commands without a result; the oldest are dropped first. */
const MAX_OPEN = 4_096;

type Phase = ControlMessage['phase'];

interface Waiting {
  readonly resolve: (message: ControlMessage) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export class ControlLine implements Disposable {
  #socket: Socket | null = null;
  readonly #waiting = new Map<string, Waiting[]>();
  /** Accepted commands by id, each with the message to report when the process ends without a result. */
  readonly #open = new Map<string, ControlMessage>();

  /** `expired` reports, in the agent's place, that a command will never be applied. */
  constructor(
    private readonly expired: (message: ControlMessage) => void,
    private readonly log: KeeperLog,
    private readonly answerMs = ANSWER_MS
  ) {}

  /** The agent reads commands from this connection; a newer one replaces an older one. */
  use(socket: Socket): void {
    this.#socket = socket;
    socket.once('close', () => {
      if (this.#socket === socket) {
        this.#socket = null;
        this.#rejectAll(
          new KeeperError('control_unavailable', 'The kernel closed its connection for commands; try again.')
        );
      }
    });
  }

  /** Resolves with the agent's first answer to this command. Rejects with `control_unavailable` or `control_unanswered`. */
  send(command: ControlCommand): Promise<ControlMessage> {
    const socket = this.#socket;
    if (socket === null) {
      return Promise.reject(
        new KeeperError(
          'control_unavailable',
          'This kernel accepts no commands yet: it needs tpulab.run(…), or jax, in a TPULab kernel.'
        )
      );
    }
    if (this.#waiting.size >= MAX_UNANSWERED) {
      return Promise.reject(
        new KeeperError(
          'control_unanswered',
          `${MAX_UNANSWERED} commands are already waiting for an answer; the kernel may be stopped.`
        )
      );
    }
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        resolve,
        reject,
        timer: setTimeout(() => {
          this.#forget(command.id, waiting);
          reject(
            new KeeperError(
              'control_unanswered',
              `The kernel did not answer within ${this.answerMs} ms. The command may still be applied; send it again with the same id to check.`
            )
          );
        }, this.answerMs)
      };
      this.#waiting.set(command.id, [...(this.#waiting.get(command.id) ?? []), waiting]);
      socket.write(JSON.stringify(command) + '\n');
    });
  }

  /** The agent has sent a message about a command. */
  received(message: ControlMessage): void {
    if (isFinal(message.phase)) {
      this.#open.delete(message.id);
    } else {
      this.#open.set(message.id, message);
      dropOldest(this.#open, MAX_OPEN);
    }
    const waiting = this.#waiting.get(message.id) ?? [];
    this.#waiting.delete(message.id);
    for (const { resolve, timer } of waiting) {
      clearTimeout(timer);
      resolve(message);
    }
  }

  /** The kernel's process has ended: commands that it accepted will no longer be applied. */
  processEnded(): void {
    const open = [...this.#open.values()];
    this.#open.clear();
    for (const message of open) {
      this.expired({
        ...message,
        time: Date.now(),
        phase: 'expired',
        reason: 'The kernel process ended before the command was applied.'
      });
    }
    if (open.length > 0) {
      this.log.info({ commands: open.length }, 'commands have expired with the kernel process');
    }
  }

  [Symbol.dispose](): void {
    this.#socket = null;
    this.#rejectAll(new KeeperError('keeper_stopping', 'The kernel is being shut down.'));
  }

  #forget(id: string, waiting: Waiting): void {
    const remaining = (this.#waiting.get(id) ?? []).filter(other => other !== waiting);
    if (remaining.length === 0) this.#waiting.delete(id);
    else this.#waiting.set(id, remaining);
  }

  #rejectAll(error: KeeperError): void {
    const all = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const { reject, timer } of all) {
      clearTimeout(timer);
      reject(error);
    }
  }
}

function isFinal(phase: Phase): boolean {
  return phase !== 'accepted';
}
