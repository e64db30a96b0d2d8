/** For specs: runs a command in this process. */
import type { Command } from 'commander';
import type { Streams } from '../output.js';

export interface Ran {
  readonly stdout: string;
  /** What the command threw; null when it succeeded. */
  readonly error: (Error & { readonly code?: string }) | null;
}

export async function runCommand(
  make: (streams: Streams) => Command,
  ...args: readonly string[]
): Promise<Ran> {
  let stdout = '';
  const write = (text: string): boolean => {
    stdout += text;
    return true;
  };
  const command = make({ stdout: { write }, stderr: { write: () => true } });
  silence(command);
  try {
    await command.parseAsync([...args], { from: 'user' });
    return { stdout, error: null };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { stdout, error };
  }
}

function silence(command: Command): void {
  command.exitOverride().configureOutput({ writeOut: () => undefined, writeErr: () => undefined });
  for (const child of command.commands) silence(child);
}
