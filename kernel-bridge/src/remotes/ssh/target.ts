/** What ssh is told about one host. */
import { RemoteProblem } from '../remote-error.js';

export interface SshTarget {
  /** As ssh takes it: an alias, `user@host` or `ssh://user@host:port`. */
  readonly destination: string;
  /** Further arguments, as an array that no shell sees. */
  readonly options: readonly string[];
}

/** Refuses what ssh would take for an option, or what no host name has. */
export function checkDestination(destination: string): string {
  if (destination === '' || destination.startsWith('-') || /[\s\x00-\x1f\x7f'"`$;|&<>\\]/.test(destination)) {
    throw new RemoteProblem(
      'remote_destination_invalid',
      `${JSON.stringify(destination)} is not a destination of ssh; write HOST, USER@HOST or ssh://USER@HOST:PORT.`
    );
  }
  return destination;
}

/** The command that a person would type to reach the same host. */
export function commandFor({ destination, options }: SshTarget, more: readonly string[] = []): string {
  return ['ssh', ...options, ...more, destination].map(shown).join(' ');
}

function shown(argument: string): string {
  return /^[\w@%+=:,./~-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}
