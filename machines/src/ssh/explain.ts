/**
 * Explains a failure from the output of ssh, of a tunnel below it, or of the host. Their messages are not translated; the
 * tables in this file contain every known message.
 *
 * ssh also prints text from the remote peer: a farewell, which may arrive before any host key was checked, and a banner.
 * Such text may be shown as text of the other side; the suggested command is built only from the typed target.
 */
import type { Cause } from '@tpulab/platform/known-causes.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import { explained, RemoteProblem, type RemoteErrorCode } from '../remote-error.js';
import { commandFor, shown, type SshTarget } from './ssh-config.js';
import { BYTE_ORDER_MARK, SERVER_DISCONNECT, isProxied } from './ssh-process.js';

const SHOWN_CHARACTERS = 300;
export const STARTUP_FILE = 'start-up file there (~/.bashrc, or what it reads)';

/**
 * gcloud's messages, which also come from a tunnel below ssh. Tested before all others: after a failed refresh, gcloud
 * advises logging in, even if only the network is down. The messages come from requests, urllib3 and the C library below
 * it.
 */
export const OFFLINE =
  /NameResolutionError|Temporary failure in name resolution|Failed to resolve|nodename nor servname|Name or service not known|getaddrinfo|Max retries exceeded|Failed to establish a new connection|Network is unreachable|No route to host|Unable to find the server|Connection (aborted|refused|reset)|ConnectTimeout|ReadTimeout|Read timed out|network connectivity issues/i;

export const LOGIN =
  /do not currently have an active account|does not have any valid credentials|Reauthentication|refreshing your current auth tokens|invalid_grant|could not find default credentials|UNAUTHENTICATED|gcloud auth login/i;

interface SshFacts {
  readonly target: SshTarget;
  /** ssh's own configuration of the target (`ssh -G`); '' if unavailable. */
  readonly configured: string;
}

/** `vm`, or the host on the way to it that the message names. */
function placeIn(text: string, { target: { destination }, configured }: SshFacts): string {
  const named =
    /Could not resolve hostname (.+?):|^([^\s:]+): Permission denied|connect to host (\S+) port/.exec(text);
  const name = (named?.[1] ?? named?.[2] ?? named?.[3] ?? '').replace(/^.*@/, '');
  const own = [hostOf(destination), valueIn(configured, 'hostname')];
  if (!PROXIED.test(configured) || name === '' || own.includes(name)) return destination;
  return `${name} (on the way to ${destination})`;
}

const PROXIED = /^proxy(command|jump) (?!none$)/m;
/** ssh only reports that its proxy has ended. */
const PROXY_ENDED =
  /^(kex_exchange_identification: |([a-z_]+( exchange)?: )?Connection (closed by|to) UNKNOWN port 65535)/m;

/** The user's own files configure a proxy command or a jump host for the target. */
function isProxiedByUser({ target, configured }: SshFacts): boolean {
  return !isProxied(target) && PROXIED.test(configured);
}

/** In the output of `ssh -G`. */
const KEYS_DISABLED = /^(pubkeyauthentication (no|false)|preferredauthentications (?!.*publickey).*)$/m;

const BAD_OPTION = /^(.+?)(?:: line | line )(\d+):? (Bad configuration option: (.+)|.*)$/;

/** The first line that ssh could not parse, its location, and the remedy. */
function badOption(all: readonly string[]): string {
  const lines = all.flatMap(line => {
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
  if (option === BYTE_ORDER_MARK)
    return `${where} begins with a byte order mark (BOM), which ssh cannot read. Save the file as UTF-8 without one.`;
  if (option.endsWith(':'))
    return `ssh cannot read ${where}: ${option}${more}. Remove the colon after the name of the option.`;
  if (option !== '') {
    return `ssh on this computer does not know the option ${option} in ${where}${more}. Remove it, or put "IgnoreUnknown ${option}" at the top of the file, or update OpenSSH.`;
  }
  return `ssh cannot read ${where}${more}: ${plainText(words, 200).replace(/\.$/, '')}. Correct that line.`;
}

/** The order matters: a changed key also causes the message that verification failed. */
const SSH_CAUSES: readonly Cause<RemoteErrorCode, SshFacts>[] = [
  {
    pattern:
      /terminating, \d+ bad configuration option|Bad configuration option|^\S.* line \d+: (no argument|unsupported option|Bad |missing|invalid|keyword )/m,
    code: 'remote_ssh_failed',
    recovery: 'person',
    message: ({ facts: { target }, lines }) =>
      `ssh to ${target.destination} was not started. ${badOption(lines)}`
  },
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    code: 'remote_host_key_changed',
    message: ({ facts: { target }, lines }) =>
      `The host key of ${target.destination} differs from the one on record${fingerprint(lines.join('\n'))}. Either the machine was recreated, or someone is intercepting the connection. Nothing was sent. If you know why the key changed, remove the old one and connect again.`,
    command: ({ facts }) => removeKey(facts)
  },
  {
    pattern: /Host key verification failed|No \S+ host key is known for/,
    code: 'remote_host_key_unknown',
    message: ({ facts: { target } }) =>
      `The host key of ${target.destination} is not known and was not accepted. Compare its fingerprint with the machine's, then accept it: connect again, or run the command.`,
    command: ({ facts: { target } }) => commandFor(target, ['-o', 'StrictHostKeyChecking=ask'])
  },
  {
    pattern: /Permission denied \(/,
    applies: ({ configured }) => KEYS_DISABLED.test(configured),
    code: 'remote_auth_refused',
    message: ({ facts: { target, configured } }) =>
      `ssh offered no key to ${target.destination}, because your ssh configuration says "${KEYS_DISABLED.exec(configured)?.[0]}". Remove that from its Host entry in ~/.ssh/config, or let the machine accept what is left.`,
    command: ({ facts: { target } }) => commandFor(target)
  },
  {
    pattern: /^Load key "[^"]*": (?!.*No such file)[^]*Permission denied \(/m,
    code: 'remote_auth_refused',
    message: ({ facts: { target }, lines }) => {
      const [, file = '', why = ''] = /^Load key "([^"]*)": (.*)$/m.exec(lines.join('\n')) ?? [];
      return `ssh cannot use the key ${plainText(file, 200)} for ${target.destination}: ${plainText(why, 100)}. Only you may be able to read the file, and it must be a private key.`;
    },
    command: ({ lines }) => `chmod 600 ${shown(/^Load key "([^"]*)"/m.exec(lines.join('\n'))?.[1] ?? '')}`
  },
  {
    pattern: /Permission denied \(|Too many authentication failures|No more authentication methods/,
    code: 'remote_auth_refused',
    message: ({ facts, line }) =>
      `${placeIn(line, facts)} rejected the user or the key (${line}). Try the command in a terminal; once it logs in without a prompt, connect again.`,
    command: ({ facts: { target } }) => commandFor(target)
  },
  {
    pattern: /^jumphost loop via /m,
    code: 'remote_ssh_failed',
    recovery: 'person',
    message: ({ facts: { target }, line }) => {
      const host = / via (\S+)/.exec(line)?.[1] ?? target.destination;
      return jumpsInCircle([...new Set([target.destination, host]), host]).message;
    }
  },
  {
    pattern: /Address family (for hostname )?not supported/,
    code: 'remote_ssh_failed',
    recovery: 'person',
    message: ({ facts: { target } }) =>
      `${target.destination} has no address of the kind that your ssh configuration allows. Remove AddressFamily for it in ~/.ssh/config, or set it to any.`,
    command: ({ facts: { target } }) => commandFor(target)
  },
  {
    pattern: /^(bind |getifaddrs)\S*: |BindInterface/m,
    code: 'remote_ssh_failed',
    recovery: 'person',
    message: ({ facts: { target }, line }) =>
      `ssh to ${target.destination} was not started: this computer does not have the address that BindAddress or BindInterface of your ssh configuration names now (${line}). Correct it in ~/.ssh/config, or connect the network that has it.`
  },
  {
    pattern: /Could not resolve hostname|Name or service not known/,
    code: 'remote_name_unknown',
    message: ({ facts, line }) =>
      `No machine has the host name in ${placeIn(line, facts)}, or this computer is offline. Check the name and the network.`
  },
  {
    pattern: PROXY_ENDED,
    applies: isProxiedByUser,
    code: 'remote_unreachable',
    message: ({ facts: { target, configured }, lines }) =>
      `${target.destination} cannot be reached: ${proxyIn(configured)} of your ssh configuration ended (${proxyOutput(lines)}). Correct it in ~/.ssh/config, or check what it connects to.`,
    command: ({ facts: { target } }) => commandFor(target)
  },
  {
    pattern: /^(kex|ssh)_exchange_identification: (Connection closed by remote host|read: Connection reset)/m,
    applies: ({ target }) => !isProxied(target),
    code: 'remote_unreachable',
    message: ({ facts: { target }, line }) =>
      `${target.destination} ended the connection before its sshd said anything (${line}). Too many logins may be open there at once (MaxStartups in its sshd_config), or it blocks this address after failed logins. Wait a minute, then connect again; else ask its administrator.`
  },
  {
    pattern: /Unable to negotiate with .*: no matching (.+) found/,
    code: 'remote_ssh_failed',
    recovery: 'person',
    message: ({ facts: { target }, line }) => {
      const [, kind = '', offer = ''] = /no matching (.+) found\. Their offer: (.*)$/.exec(line) ?? [];
      return `ssh on this computer and ${target.destination} have no ${kind} in common (there: ${offer}). One of them is old, or its configuration leaves out what the other needs. Update the older one, or put a line such as "${NEGOTIATED[kind] ?? 'Ciphers'} +${offer.split(',')[0] ?? ''}" into the Host entry in ~/.ssh/config.`;
    },
    command: ({ facts: { target } }) => commandFor(target)
  },
  {
    pattern: /^Connection (closed|reset) by (?!UNKNOWN|remote)/m,
    applies: ({ target }) => !isProxied(target),
    code: 'remote_unreachable',
    message: ({ facts: { target }, line }) =>
      `${target.destination} answered and ended the connection before the login was complete (${line}). Its sshd may refuse this user or address, or be set up wrongly; its log says why ("journalctl -u ssh" there).`
  },
  {
    pattern:
      /timed out|No route to host|Network is unreachable|Connection refused|Host is down|Connection (closed|reset)|kex_exchange_identification|failed to connect to backend|UNKNOWN port 65535/i,
    code: 'remote_unreachable',
    message: ({ facts: { target }, line }) =>
      `${target.destination} cannot be reached (${line}). Check that the machine is running, that its firewall allows ssh, and that this computer is online.`
  }
];

/** The ssh_config option for each kind of algorithm on which the two sides have none in common. */
const NEGOTIATED: Readonly<Record<string, string>> = {
  'key exchange method': 'KexAlgorithms',
  'host key type': 'HostKeyAlgorithms',
  cipher: 'Ciphers',
  MAC: 'MACs'
};

function proxyIn(configured: string): string {
  return /^proxyjump (?!none$)/m.test(configured) ? 'the ProxyJump' : 'the ProxyCommand';
}

function proxyOutput(lines: readonly string[]): string {
  const end = lines.findIndex(line => PROXY_ENDED.test(line));
  const last = lines.slice(0, end).findLast(line => line.trim() !== '');
  return last === undefined ? 'without a word' : plainText(last.trim(), SHOWN_CHARACTERS);
}

/** Close codes of the relay, in the forms of `iap_tunnel_websocket.py`, as `gcloud compute start-iap-tunnel` prints them. */
const TUNNEL_CAUSES: readonly Cause<RemoteErrorCode>[] = [
  {
    pattern: OFFLINE,
    code: 'gcloud_offline',
    message: 'The IAP tunnel did not open: gcloud cannot reach Google. Check that this computer is online.'
  },
  {
    pattern: LOGIN,
    code: 'gcloud_login',
    message: 'The IAP tunnel did not open: gcloud is not logged in. Log in, then connect again.',
    command: 'gcloud auth login'
  },
  {
    pattern: /Error while connecting \[(4033|Handshake status 40[013])|missing permissions|not authorized/,
    code: 'gcloud_permission',
    message:
      'Identity-Aware Proxy does not admit your account. Ask an owner of the project to run the command.'
  },
  {
    pattern: /Error while connecting \[4003|failed to connect to backend/,
    code: 'remote_iap_blocked',
    message:
      'Identity-Aware Proxy cannot reach port 22 of the machine. Either it is still booting, or no firewall rule lets IAP in; the command adds one.'
  },
  {
    pattern: /Error while connecting \[4047|Failed to lookup instance/,
    code: 'remote_unreachable',
    message: 'Identity-Aware Proxy finds no running machine of this name. Check that the machine is running.'
  }
];

/** From this line on, ssh prints its own messages, or repeats text from the other side. */
const SSH_MESSAGE =
  /^(kex_exchange_identification|ssh_exchange_identification|Connection (closed|reset|to )|Received disconnect|Disconnected|banner|client_loop|ssh: )/;

/** null: no known failure of the tunnel. */
function explainTunnel(lines: readonly string[]): RemoteProblem | null {
  const end = lines.findIndex(line => SSH_MESSAGE.test(line));
  const words = lines.slice(0, end < 0 ? lines.length : end);
  return words.some(line => line.startsWith('ERROR: ')) ? explained(TUNNEL_CAUSES, words, undefined) : null;
}

/** Messages of programs on a host after the login, and of ssh when it starts a program there. */
const HOST_CAUSES: readonly Cause<RemoteErrorCode, string | null>[] = [
  {
    pattern: /No space left|ENOSPC|os error 28\b|Disk quota|EDQUOT|os error 122\b/i,
    code: 'remote_disk_full',
    message: ({ facts: host, line }) =>
      `The disk of ${host ?? 'this computer'} is full, or has no room for more files (${line}). Free some space there ("df -h" and "df -i" show how much there is), then try again.`,
    command: ({ facts: host }) => (host === null ? 'df -h; df -i' : `ssh ${shown(host)} 'df -h; df -i'`)
  },
  {
    pattern: /(failed to (execute|run command)|cannot execute|tpulab: ).*Permission denied/,
    code: 'remote_bridge_failed',
    recovery: 'person',
    message: ({ facts: host, line }) =>
      `${host} may not run the server from where it is (${line}). Its file system is mounted noexec, or the program lacks the right to be executed; "findmnt -T ~" there shows the first. Ask for the mount option exec, or install TPULab on another disk.`
  },
  {
    pattern:
      /E[MN]FILE: |too many open files|cannot fork|fork: |EAGAIN|resource temporarily unavailable|out of memory|cannot allocate memory|ENOMEM|file size limit exceeded|trace\/breakpoint trap/i,
    code: 'remote_bridge_failed',
    recovery: 'person',
    message: ({ facts: host, line }) =>
      `${host ?? 'This computer'} allows this account too little for a server (${line}). The command shows its limits; "ulimit" in a start-up file there (~/.bashrc) or in /etc/security/limits.conf sets them, or the memory is used up.`,
    command: ({ facts: host }) => (host === null ? 'ulimit -a' : `ssh ${shown(host)} 'ulimit -a'`)
  },
  {
    pattern: /(^|[\s/])sh: (command )?(not found|No such file)/,
    code: 'remote_command_refused',
    message: ({ facts: host, line }) =>
      `${host} let us in and has no program "sh" on its PATH (${line}). A ${STARTUP_FILE} sets PATH without /bin and /usr/bin; correct that.`
  },
  {
    pattern: /Session open refused by peer/,
    code: 'remote_command_refused',
    message: ({ facts: host }) =>
      `The sshd of ${host} let us in and starts no program: MaxSessions in its sshd_config allows no further session of one connection. Ask its administrator for a larger number (TPULab needs 2, the default is 10).`
  }
];

/**
 * Returns null if the output contains no known message.
 *
 * @param host null: this computer
 * @param output of a program there, or of the ssh that should start it
 */
export function explainHost(host: string | null, output: string): RemoteProblem | null {
  return explained(HOST_CAUSES, output.split('\n'), host);
}

/** The error of a Node program, which prints a stack and its version after the error; for other programs, the last lines. */
export function finalError(lines: readonly string[]): string {
  return lines.findLast(line => /^(Uncaught )?\w*Error\b.*:/.test(line)) ?? lines.slice(-3).join(' ');
}

/**
 * @param lines standard error of ssh, oldest first
 * @param configured ssh's own configuration of the target (`ssh -G`); '' if unavailable
 */
export function explainSsh(
  target: SshTarget,
  lines: readonly string[],
  code: number | null,
  configured = ''
): RemoteProblem {
  const end = lines.findIndex(line => SERVER_DISCONNECT.test(line));
  // The peer's text is used for only one cause, which needs no trust: a refused login.
  const theirs = end < 0 ? '' : (REFUSED.exec(lines[end] ?? '')?.[0] ?? '');
  const own = [...(end < 0 ? lines : lines.slice(0, end)), theirs];
  // A proxy command prints its error before ssh, which then only reports that its proxy has ended.
  const cause =
    target.explain?.(own) ??
    (isProxied(target) ? explainTunnel(own) : null) ??
    explained(SSH_CAUSES, own, { target, configured });
  if (cause) return cause;
  if (code === 0) {
    return new RemoteProblem(
      'remote_ssh_failed',
      `ssh to ${target.destination} went into the background, or ended by itself. Your ssh configuration may say so for this host: remove ForkAfterAuthentication, SessionType or RemoteCommand there.`,
      { command: `ssh -G ${shown(target.destination)}`, recovery: 'person' }
    );
  }
  const last = lines.slice(0, end < 0 ? undefined : end + 1).findLast(line => line.trim() !== '');
  const reason = plainText(last?.trim() ?? `exit code ${code ?? 'unknown'}`, SHOWN_CHARACTERS);
  return new RemoteProblem(
    'remote_ssh_failed',
    `ssh to ${target.destination} ended (${reason}). Try the command in a terminal.`,
    { command: commandFor(target) }
  );
}

/** @param path the target, and the jump hosts from one to the next */
export function jumpsInCircle(path: readonly string[]): RemoteProblem {
  const [target = ''] = path;
  return new RemoteProblem(
    'remote_ssh_failed',
    `ssh to ${target} was not started: ProxyJump in your ssh configuration leads in a circle (${plainText(path.join(' → '), SHOWN_CHARACTERS)}). A "Host *" applies to the jump host too: add "ProxyJump none" to the jump host's own entry, above it, in ~/.ssh/config.`,
    { command: `ssh -G ${shown(target)}`, recovery: 'person' }
  );
}

const REFUSED = /Too many authentication failures|No more authentication methods/;

/**
 * ssh's message for a connection that sshd does not forward; for a socket without a listener the message is "Connection refused".
 */
const FORWARD_REFUSED =
  /channel \d+: open failed: (administratively prohibited|unknown channel type|connect failed: open failed)/;

export function isRefusal(line: string): boolean {
  return FORWARD_REFUSED.test(line);
}

export function forwardRefused(host: string): RemoteProblem {
  return new RemoteProblem(
    'remote_forward_failed',
    `The sshd of ${host} forwards no connections, and TPULab needs one to reach its server there, which is running. Ask the administrator to allow it for your account: AllowStreamLocalForwarding or AllowTcpForwarding in sshd_config, or neither "no-port-forwarding" nor "restrict" before your key in authorized_keys.`,
    { recovery: 'person' }
  );
}

/** An open connection ends with few messages: the host closed it, or it fell silent. */
export function lostProblem(
  target: SshTarget,
  errors: readonly string[],
  code: number | null
): RemoteProblem {
  const reason = errors.findLast(line => /timeout|closed|reset|broken|disconnect/i.test(line))?.trim();
  return new RemoteProblem(
    'remote_lost',
    `The connection to ${target.destination} has ended (${reason ?? `ssh ended with ${code ?? 'a signal'}`}).`
  );
}

/** The command from ssh's own advice, built from the user's input and configuration. */
function removeKey({ target: { destination }, configured }: SshFacts): string {
  const alias = valueIn(configured, 'hostkeyalias');
  const host = alias ?? valueIn(configured, 'hostname') ?? hostOf(destination);
  const port = valueIn(configured, 'port') ?? /:(\d+)$/.exec(destination)?.[1] ?? '22';
  const name = port === '22' || alias !== undefined ? host : `[${host}]:${port}`;
  const [file] = (valueIn(configured, 'userknownhostsfile') ?? '').split(' ');
  return ['ssh-keygen', ...(file ? ['-f', file] : []), '-R', name].map(shown).join(' ');
}

function valueIn(configured: string, keyword: string): string | undefined {
  return new RegExp(`^${keyword} (.*)$`, 'm').exec(configured)?.[1];
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
