/** Sends commands to the agent in a kernel: through the bridge, never over the shell channel, so that they act in a busy cell. */
import type { ServerConnection } from '@jupyterlab/services';
import { ControlAnswer, type ControlCommand, type ControlMessage } from '@tpulab/protocol';
import { requestBridge, bodyAs, messageOf, NoAnswer } from '../backends/bridge-request.js';

/** The agent answers in milliseconds; a process that is stopped or swapped out may take longer. */
const ANSWER_MS = 15_000;

/** The command did not arrive, or its arrival is uncertain. `code` is stable; the message contains the remedy. */
export class ControlError extends Error {
  constructor(
    readonly code: 'control.unreachable' | 'control.refused' | 'control.unreadable',
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
    this.name = 'ControlError';
  }
}

interface ControlTarget {
  readonly kernelId: string;
  /** How its bridge is reached; null while unknown. */
  readonly settings: ServerConnection.ISettings | null;
}

/**
 * The agent's first answer: accepted, refused, or the command's result already. Sent once more with the same id after a missing
 * answer, which is safe: a command is applied once.
 *
 * @throws ControlError
 */
export async function sendCommand(target: ControlTarget, command: ControlCommand): Promise<ControlMessage> {
  try {
    return await post(target, command);
  } catch (error) {
    if (error instanceof ControlError && error.code === 'control.unreachable') {
      return post(target, command);
    }
    throw error;
  }
}

async function post({ kernelId, settings }: ControlTarget, command: ControlCommand): Promise<ControlMessage> {
  const answer = await requestBridge({
    settings,
    route: `bridge/v1/kernels/${encodeURIComponent(kernelId)}/control`,
    method: 'POST',
    body: command,
    timeoutMs: ANSWER_MS
  }).catch((cause: unknown) => {
    const isUnknown = cause instanceof NoAnswer && cause.code === 'request.noAddress';
    throw new ControlError(
      'control.unreachable',
      isUnknown
        ? 'The TPULab server is not connected; try again when it is.'
        : 'The kernel did not answer; check whether it still runs, and try again.',
      { cause }
    );
  });
  if (!answer.response.ok) {
    throw new ControlError(
      'control.refused',
      messageOf(answer) ?? `The TPULab server answered with status ${answer.response.status}.`
    );
  }
  const message = bodyAs(ControlAnswer, answer);
  if (message === null) {
    throw new ControlError(
      'control.unreadable',
      'The TPULab server gave an answer that this page cannot read; update page and server.'
    );
  }
  return message;
}
