/** The output of a command: a line for people, or with `--json` one line of JSON; failures as one sentence. */
import { forTerminal, forTerminalAsJson } from '@tpulab/platform/plain-text.js';
import { CodedError } from '@tpulab/platform/errors.js';
import { createInterface } from 'node:readline/promises';

export interface OutputOptions {
  readonly json?: true | undefined;
}

export interface Streams {
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

export function print(streams: Streams, { json }: OutputOptions, value: object, text: string): void {
  // Much of the value may come from a kernel or a remote machine.
  streams.stdout.write(`${json === true ? forTerminalAsJson(value) : forTerminal(text)}\n`);
}

/** The code of one of our errors, for programs; null for an unexpected error. */
export function codeOf(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && /^[a-z][a-z_]+$/.test(code) ? code : null;
}

export function complain(streams: Streams, { json }: OutputOptions, error: unknown): void {
  const code = codeOf(error);
  const detail = error instanceof Error ? error.message : String(error);
  const text = redact(code === null ? `Unexpected failure: ${detail}` : detail);
  const message = forTerminal(text);
  if (json === true)
    streams.stdout.write(`${forTerminalAsJson({ error: { code: code ?? 'internal', message } })}\n`);
  streams.stderr.write(`${message}\n`);
}

export type CommandErrorCode =
  | 'control_refused'
  | 'no_gateway'
  | 'several_gateways'
  | 'gateway_unresponsive'
  | 'gateway_not_stopped'
  | 'kernel_unknown'
  | 'kernel_ambiguous'
  | 'cell_unknown'
  | 'mirror_unknown'
  | 'notebook_unusable'
  | 'notebook_changed'
  | 'notebook_not_written'
  | 'journal_faulty'
  | 'journal_in_use'
  | 'journal_not_repaired'
  | 'export_not_written'
  | 'remote_target_invalid'
  | 'not_confirmed'
  | 'ssh_not_started'
  | 'run_in_progress'
  | 'run_unknown'
  | 'run_not_started'
  | 'notebook_failed';

/** Why a command failed that calls a running gateway, or whose arguments are wrong. */
export class CommandError extends CodedError<CommandErrorCode> {}

/** @throws CommandError `export_not_written` if the system refuses the path */
export async function written<T>(what: string, target: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (code === undefined || syscall === undefined) throw error;
    const why = code === 'EEXIST' ? 'it exists already' : `the system says ${code}`;
    throw new CommandError(
      'export_not_written',
      `${what} cannot be exported to ${target}: ${why}; choose another path.`,
      { cause: error }
    );
  }
}

/* Removes tokens from printed and logged text. */

/** `?token=…` in URLs and `Authorization` values, anywhere in a text. */
function redact(text: string): string {
  return text
    .replace(/([?&]token=)[^&\s"']+/gi, '$1[token]')
    .replace(/\b(token|bearer) +[\x21-\x7e]{8,}/gi, '$1 [token]');
}

/** Fields that a logged object may contain by accident. */
export const SECRET_FIELDS = [
  'token',
  '*.token',
  'headers.authorization',
  'headers.cookie',
  '*.headers.authorization',
  '*.headers.cookie',
  'headers["x-xsrftoken"]',
  '*.headers["x-xsrftoken"]'
];

/** Long-running commands shut down cleanly when they are interrupted. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs `work` with a signal that the first interruption aborts; a rejection that the abort causes is not a failure.
 *
 * @param signals the signals that interrupt it; other signals keep their default effect
 */
export async function interruptible(
  work: (signal: AbortSignal) => Promise<void>,
  signals: readonly (typeof SIGNALS)[number][] = SIGNALS
): Promise<void> {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  for (const name of signals) process.once(name, abort);
  try {
    await work(controller.signal);
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    for (const name of signals) process.off(name, abort);
  }
}

/** An irreversible action is shown first, and a person confirms it; a script passes `--yes`. */
export interface ConfirmOptions extends OutputOptions {
  readonly yes?: true;
}

/** null: there is no person at this terminal to ask. */
export type Confirm = (question: string) => Promise<boolean | null>;

export const YES: readonly [string, string] = ['--yes', 'do it without asking'];

export const confirmOnTerminal: Confirm = async question => {
  if (!process.stdin.isTTY) return null;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim());
  } finally {
    terminal.close();
  }
};

/** @throws CommandError `not_confirmed` unless confirmed; the message contains the plan if nobody could confirm */
export async function agree(
  streams: Streams,
  { yes }: Pick<ConfirmOptions, 'yes'>,
  { plan, question }: { readonly plan: string; readonly question: string },
  confirm: Confirm = confirmOnTerminal
): Promise<void> {
  if (yes === true) return;
  if (process.stdin.isTTY) streams.stderr.write(`${plan}\n`);
  const answer = await confirm(question);
  if (answer === true) return;
  throw new CommandError(
    'not_confirmed',
    answer === false
      ? 'Nothing was done.'
      : `${plan}\nNothing was done, because there is no terminal to ask for confirmation. Add --yes to confirm.`
  );
}
