/**
 * What went wrong, from what ssh wrote before it ended. Its messages are not translated.
 *
 * ssh also prints what whoever answered says: a farewell, which may come before any host key was checked, and a banner. Such words can
 * be shown, as words of the other side; which command helps is told from the typed target alone.
 */
import { explainTunnel } from '../gcloud/tunnel.js';
import { type Outlook, RemoteProblem, type RemoteErrorCode } from '../remote-error.js';
import { plainText } from '../../platform/plain-text.js';
import { commandFor, shown, type SshTarget } from './ssh-config.js';
import { FAREWELL, isProxied } from './ssh-process.js';

interface Reason {
  readonly pattern: RegExp;
  readonly code: RemoteErrorCode;
  /** Where it is not that of the code. */
  readonly outlook?: Outlook;
  readonly say: (target: SshTarget, words: string, all: string) => string;
  readonly command?: (target: SshTarget, configured: string) => string;
}

const SHOWN_CHARACTERS = 300;

const BAD_OPTION = /^(.+?)(?:: line | line )(\d+):? (Bad configuration option: (.+)|.*)$/;

/** The first line that ssh could not read, where it is, and what settles it. */
function badOption(all: string): string {
  const lines = all.split('\n').flatMap(line => {
    const [, file = '', number = '', words = '', option = ''] = BAD_OPTION.exec(line) ?? [];
    return file === '' ? [] : [{ file, number, words, option }];
  });
  const [first] = lines;
  if (first === undefined) return 'The configuration of ssh on this computer cannot be read.';
  const { file, number, words, option } = first;
  const more = lines.length > 1 ? ` (and ${lines.length - 1} more)` : '';
  const where = `line ${number} of ${plainText(file, 200)}`;
  if (option.includes('[text')) {
    return `An Include of your ssh configuration names ${plainText(file, 200)}, which is not a configuration; it may be a private key. Correct the Include: it names files like ~/.ssh/config.d/*.conf.`;
  }
  if (/^\ufeff|\xef\xbb\xbf/.test(option))
    return `${where} begins with a byte order mark; save the file without one (UTF-8 without BOM).`;
  if (option.endsWith(':'))
    return `ssh cannot read ${where}: ${option}${more}. Remove the colon after the name of the option.`;
  if (option !== '') {
    return `ssh on this computer does not know the option ${option} in ${where}${more}. Remove it, or put "IgnoreUnknown ${option}" at the top of the file, or update OpenSSH.`;
  }
  return `ssh cannot read ${where}${more}: ${plainText(words, 200)}. Correct that line.`;
}

/** In this order: a changed key also says that verification failed. */
const REASONS: readonly Reason[] = [
  {
    pattern:
      /terminating, \d+ bad configuration option|Bad configuration option|^\S.* line \d+: (no argument|unsupported option|Bad |missing|invalid|keyword )/m,
    code: 'remote_ssh_failed',
    outlook: 'person',
    say: ({ destination }, _words, all) => `ssh to ${destination} was not started. ${badOption(all)}`
  },
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    code: 'remote_host_key_changed',
    say: ({ destination }, _words, all) =>
      `The host key of ${destination} differs from the one on record${fingerprint(all)}. Either the machine was recreated, or someone is intercepting the connection. Nothing was sent. If you know why the key changed, remove the old one and connect again.`,
    command: (target, configured) => removeKey(target, configured)
  },
  {
    pattern: /Host key verification failed|No \S+ host key is known for/,
    code: 'remote_host_key_unknown',
    say: ({ destination }) =>
      `The host key of ${destination} is not known and was not accepted. Compare its fingerprint with the machine's, then accept it: connect again, or run the command.`,
    command: target => commandFor(target, ['-o', 'StrictHostKeyChecking=ask'])
  },
  {
    pattern: /Permission denied|Too many authentication failures|No more authentication methods/,
    code: 'remote_auth_refused',
    say: ({ destination }, words) =>
      `${destination} rejected the user or the key (${words}). Try the command in a terminal; once it logs in without a prompt, connect again.`,
    command: target => commandFor(target)
  },
  {
    pattern: /Could not resolve hostname|Name or service not known/,
    code: 'remote_name_unknown',
    say: ({ destination }) =>
      `No machine has the host name in ${destination}, or this computer is offline. Check the name and the network.`
  },
  {
    pattern:
      /timed out|No route to host|Network is unreachable|Connection refused|Host is down|Connection (closed|reset)|kex_exchange_identification|failed to connect to backend|UNKNOWN port 65535/i,
    code: 'remote_unreachable',
    say: ({ destination }, words) =>
      `${destination} cannot be reached (${words}). Check that the machine is running, that its firewall allows ssh, and that this computer is online.`
  }
];

/**
 * @param lines what ssh wrote to standard error, oldest first
 * @param configured what this computer's ssh makes of the target (`ssh -G`); '' when it could not be asked
 */
export function explainSsh(
  target: SshTarget,
  lines: readonly string[],
  code: number | null,
  configured = ''
): RemoteProblem {
  const end = lines.findIndex(line => FAREWELL.test(line));
  // Their words count for one thing only, which needs no trust: they do not let us in.
  const theirs = end < 0 ? '' : (REFUSED.exec(lines[end] ?? '')?.[0] ?? '');
  const own = [...(end < 0 ? lines : lines.slice(0, end)), theirs];
  const beneath = target.explain?.(own);
  if (beneath) return beneath;
  // The command of a proxy speaks before ssh, which then knows only that its proxy has gone.
  const tunnel = isProxied(target) ? explainTunnel(own) : null;
  if (tunnel !== null) return tunnel;
  const all = own.join('\n');
  for (const { pattern, code: reason, outlook, say, command } of REASONS) {
    if (!pattern.test(all)) continue;
    const words = plainText(own.findLast(line => pattern.test(line))?.trim() ?? '', SHOWN_CHARACTERS);
    const settles = command?.(target, configured);
    return new RemoteProblem(reason, say(target, words, all), {
      command: settles,
      ...(outlook === undefined ? {} : { outlook })
    });
  }
  if (code === 0) {
    return new RemoteProblem(
      'remote_ssh_failed',
      `ssh to ${target.destination} went into the background, or ended by itself. Your ssh configuration may say so for this host: remove ForkAfterAuthentication, SessionType or RemoteCommand there.`,
      { command: `ssh -G ${shown(target.destination)}`, outlook: 'person' }
    );
  }
  const last = lines.slice(0, end < 0 ? undefined : end + 1).findLast(line => line.trim() !== '');
  const words = plainText(last?.trim() ?? `exit code ${code ?? 'unknown'}`, SHOWN_CHARACTERS);
  return new RemoteProblem(
    'remote_ssh_failed',
    `ssh to ${target.destination} ended (${words}). Try the command in a terminal.`,
    { command: commandFor(target) }
  );
}

const REFUSED = /Too many authentication failures|No more authentication methods/;

/** As ssh itself advises it, made from what the user has typed and configured. */
function removeKey({ destination }: SshTarget, configured: string): string {
  const values = new Map<string, string>();
  for (const line of configured.split('\n')) {
    const [keyword = '', ...words] = line.trim().split(' ');
    values.set(keyword, words.join(' '));
  }
  const host = values.get('hostkeyalias') ?? values.get('hostname') ?? hostOf(destination);
  const port = values.get('port') ?? /:(\d+)$/.exec(destination)?.[1] ?? '22';
  const name = port === '22' || values.has('hostkeyalias') ? host : `[${host}]:${port}`;
  const [file] = (values.get('userknownhostsfile') ?? '').split(' ');
  return ['ssh-keygen', ...(file ? ['-f', file] : []), '-R', name].map(shown).join(' ');
}

function fingerprint(all: string): string {
  const found = /\b(SHA256:[\w+/=]{20,})/.exec(all)?.[1];
  return found === undefined ? '' : ` (it now shows ${found})`;
}

function hostOf(destination: string): string {
  return destination
    .replace(/^ssh:\/\//, '')
    .replace(/^[^@]*@/, '')
    .replace(/:\d+$/, '');
}
