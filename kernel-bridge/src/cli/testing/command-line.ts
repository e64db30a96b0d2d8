/** For specs: runs a command in this process. */
import type { Command } from 'commander';
import type { Streams } from '../output.js';

export interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  /** The error that the command threw; null if it succeeded. */
  readonly error: (Error & { readonly code?: string }) | null;
}

export async function runCommand(
  make: (streams: Streams) => Command,
  ...args: readonly string[]
): Promise<Ran> {
  const output = { stdout: '', stderr: '' };
  const into = (name: keyof typeof output) => ({
    write: (text: string): void => {
      output[name] += text;
    }
  });
  const command = make({ stdout: into('stdout'), stderr: into('stderr') });
  silence(command);
  try {
    await command.parseAsync([...args], { from: 'user' });
    return { ...output, error: null };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { ...output, error };
  }
}

function silence(command: Command): void {
  command.exitOverride().configureOutput({ writeOut: () => undefined, writeErr: () => undefined });
  for (const child of command.commands) silence(child);
}
