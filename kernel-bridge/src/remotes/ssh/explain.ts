/** What went wrong, from what ssh wrote before it ended. Its messages are not translated. */
import { RemoteProblem, type RemoteErrorCode } from '../remote-error.js';
import { commandFor, type SshTarget } from './target.js';

interface Reason {
  readonly pattern: RegExp;
  readonly code: RemoteErrorCode;
  readonly say: (target: SshTarget, words: string, all: string) => string;
  readonly command?: (target: SshTarget, all: string) => string | undefined;
}

/** In this order: a changed key also says that verification failed. */
const REASONS: readonly Reason[] = [
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    code: 'remote_host_key_changed',
    say: ({ destination }, _words, all) =>
      `The host key of ${destination} is not the one that is known for it${fingerprint(all)}. Either the machine was made anew, or somebody is between you and it; nothing was sent. If you know why it changed, remove the old key and connect again.`,
    command: ({ destination }, all) => {
      const line = /^\s*(ssh-keygen -f .+ -R .+)$/m.exec(all)?.[1]?.trim();
      return line ?? `ssh-keygen -R ${hostOf(destination)}`;
    }
  },
  {
    pattern: /Host key verification failed|No \S+ host key is known for/,
    code: 'remote_host_key_unknown',
    say: ({ destination }) =>
      `The host key of ${destination} is not known and was not accepted. Compare its fingerprint with that of the machine, then accept it: connect again, or run the command.`,
    command: target => commandFor(target, ['-o', 'StrictHostKeyChecking=ask'])
  },
  {
    pattern: /Permission denied|Too many authentication failures|No more authentication methods/,
    code: 'remote_auth_refused',
    say: ({ destination }, words) =>
      `${destination} did not accept the user or the key (${words}). Try the command in a terminal; when it asks for nothing and logs in, connect again.`,
    command: target => commandFor(target)
  },
  {
    pattern: /Could not resolve hostname|Name or service not known/,
    code: 'remote_name_unknown',
    say: ({ destination }) =>
      `No machine has the name in ${destination}, or this computer is offline. Check the name and the network.`
  },
  {
    pattern:
      /timed out|No route to host|Network is unreachable|Connection refused|Host is down|Connection (closed|reset)|kex_exchange_identification|failed to connect to backend|UNKNOWN port 65535/i,
    code: 'remote_unreachable',
    say: ({ destination }, words) =>
      `${destination} cannot be reached (${words}). See that the machine runs, that its firewall lets ssh in, and that this computer is online.`
  }
];

/** @param lines what ssh wrote to standard error, oldest first */
export function explainSsh(target: SshTarget, lines: readonly string[], code: number | null): RemoteProblem {
  const all = lines.join('\n');
  for (const { pattern, code: reason, say, command } of REASONS) {
    if (!pattern.test(all)) continue;
    const words = lines.findLast(line => pattern.test(line))?.trim() ?? '';
    const settles = command?.(target, all);
    return new RemoteProblem(
      reason,
      say(target, words, all),
      settles === undefined ? {} : { command: settles }
    );
  }
  const last = lines.findLast(line => line.trim() !== '')?.trim() ?? `exit code ${code ?? 'unknown'}`;
  return new RemoteProblem(
    'remote_ssh_failed',
    `ssh to ${target.destination} ended (${last}). Try the command in a terminal.`,
    { command: commandFor(target) }
  );
}

function fingerprint(all: string): string {
  const found = /\b(SHA256:[\w+/=]{20,})/.exec(all)?.[1];
  return found === undefined ? '' : ` (it now shows ${found})`;
}

function hostOf(destination: string): string {
  return destination.replace(/^ssh:\/\//, '').replace(/^[^@]*@/, '');
}
