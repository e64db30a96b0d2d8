/** Sends commands to the agent in a kernel: by the bridge, never over the shell channel, so that they act in a busy cell. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { ControlAnswer, type ControlCommand, type ControlMessage } from '@tpulab/protocol';

/** The agent answers in milliseconds; a process that is stopped or swapped out may take longer. */
const ANSWER_MS = 15_000;

/** The command did not arrive, or it is not known whether it did. `code` is stable; the message says what to do. */
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

export interface ControlTarget {
  readonly kernelId: string;
  /** How its bridge is reached; null while that is not known. */
  readonly settings: ServerConnection.ISettings | null;
}

/**
 * The agent's first word: accepted, refused, or what became of the command already. Sent once more with the same id when no answer
 * came, which is safe: a command is applied once.
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
  if (!settings) {
    throw new ControlError('control.unreachable', 'The bridge is not connected; try again when it is.');
  }
  const url = URLExt.join(settings.baseUrl, 'bridge/v1/kernels', encodeURIComponent(kernelId), 'control');
  let response: Response;
  let body: unknown;
  try {
    response = await ServerConnection.makeRequest(
      url,
      {
        method: 'POST',
        body: JSON.stringify(command),
        headers: { 'content-type': 'application/json' },
        signal: AbortSignal.timeout(ANSWER_MS)
      },
      settings
    );
    body = await response.json().catch(() => null);
  } catch (cause) {
    throw new ControlError(
      'control.unreachable',
      'The kernel did not answer; look whether it still runs, and try again.',
      { cause }
    );
  }
  if (!response.ok) {
    const said = (body as { message?: unknown } | null)?.message;
    throw new ControlError(
      'control.refused',
      typeof said === 'string' ? said : `The bridge answered with status ${response.status}.`
    );
  }
  // TypeBox's types are seen twice, as in `events/parse-frame.ts`.
  if (!Value.Check(ControlAnswer as unknown as TSchema, body)) {
    throw new ControlError(
      'control.unreadable',
      'The bridge gave an answer that this page cannot read; update page and bridge.'
    );
  }
  return body as ControlMessage;
}
