/** What cannot be undone is shown before it is done, and a person says yes; a script says `--yes`. */
import { createInterface } from 'node:readline/promises';
import { CommandError } from './command-errors.js';
import type { OutputOptions, Streams } from './output.js';

export interface ConfirmOptions extends OutputOptions {
  readonly yes?: true;
}

/** null: there is nobody at this terminal. */
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

/** @throws CommandError `not_confirmed` unless it was agreed to; the message has the plan where nobody could be asked */
export async function agree(
  streams: Streams,
  { yes }: ConfirmOptions,
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
