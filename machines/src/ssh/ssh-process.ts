/**
 * Runs ssh, and ends it when it is no longer needed. The user's own configuration of keys, hosts and proxies stays in
 * effect.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { RemoteProblem } from '../remote-error.js';
import type { SshTarget } from './ssh-config.js';

/** Number of standard-error lines to store: enough to explain a failure. */
const MAX_LINES = 100;
const MAX_CHARACTERS = 2_000;
/** The message of `packet.c` in OpenSSH. */
export const SERVER_DISCONNECT = /^Received disconnect from /;
const END_WAIT_MS = 2_000;

interface SshProcessOptions {
  readonly program: string;
  readonly args: readonly string[];
  /** Omitted for a request to an open connection. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly onErrorLine?: (line: string) => void;
}

export class SshProcess {
  readonly errors: string[] = [];
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves after it has ended and its whole output was read. */
  readonly ended: Promise<{ readonly code: number | null }>;
  #isOver = false;
  #hasServerDisconnected = false;
  /** Files that are not ssh configurations. */
  readonly #keys = new Set<string>();

  private constructor(child: ChildProcessWithoutNullStreams, options: SshProcessOptions) {
    this.child = child;
    const stderr = createInterface({ input: child.stderr });
    stderr.on('line', line => {
      // ssh prints the peer's farewell, including line ends, even before a host key was checked. All later text comes from
      // the peer.
      if (this.#hasServerDisconnected) return;
      this.#hasServerDisconnected = SERVER_DISCONNECT.test(line);
      const safe = withoutWords(line.slice(0, MAX_CHARACTERS), this.#keys);
      this.errors.push(safe);
      if (this.errors.length > MAX_LINES) this.errors.shift();
      options.onErrorLine?.(safe);
    });
    this.ended = new Promise(resolve => {
      child.once('close', code => {
        this.#isOver = true;
        resolve({ code });
      });
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** @throws RemoteProblem `remote_ssh_missing` */
  static async start(options: SshProcessOptions): Promise<SshProcess> {
    // In a new session, Ctrl+C in the gateway's terminal ends ssh through us, and ssh finds no terminal for prompts.
    const child = spawn(options.program, options.args, {
      detached: true,
      env: options.env ?? passed(REQUEST_VARIABLES)
    });
    // The program's exit reports a broken pipe.
    child.stdin.on('error', () => undefined);
    child.stdout.on('error', () => undefined);
    const started = new SshProcess(child, options);
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', cause => {
        reject(
          new RemoteProblem(
            'remote_ssh_missing',
            `The program ssh cannot be started (${(cause as NodeJS.ErrnoException).code ?? cause.message}); install OpenSSH, or put it on the PATH of the server.`,
            { cause }
          )
        );
      });
    });
    child.on('error', () => undefined);
    return started;
  }

  async end(): Promise<void> {
    if (this.isOver) return;
    const { child } = this;
    // ssh passed its pipes to the connection, which holds them while the program on the host runs.
    const stopListening = (): void => {
      child.stdout.destroy();
      child.stderr.destroy();
    };
    if (child.exitCode !== null || child.signalCode !== null) stopListening();
    else child.once('exit', stopListening);
    this.#signal('SIGTERM');
    const timer = setTimeout(() => this.#signal('SIGKILL'), END_WAIT_MS);
    await this.ended;
    clearTimeout(timer);
  }

  /** Signals the whole group, so that no ProxyCommand is left. */
  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      this.child.kill(signal);
    }
  }
}

/**
 * The part of the gateway's environment that our ssh receives, without tokens and keys: paths of programs, keys and the
 * user's files, and the variables that a ProxyCommand needs. No other variable is passed, so that no expansion can find a
 * secret.
 */
const FORWARDED_VARIABLES =
  /^(PATH|HOME|SSH_AUTH_SOCK|LANG|LC_[A-Z]+|USER|LOGNAME|SHELL|TMPDIR|KRB5CCNAME|XDG_[A-Z]+_(DIR|HOME)|CLOUDSDK_[A-Z_]+|GOOGLE_APPLICATION_CREDENTIALS|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE)$/i;
/** For a request to an open connection: ssh only has to find it. */
const REQUEST_VARIABLES = /^(PATH|HOME|SSH_AUTH_SOCK)$/;

/** Environment of a process that opens a connection. @param more variables for its prompts to a person */
export function sshEnvironment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  return { ...passed(FORWARDED_VARIABLES), ...more };
}

function passed(names: RegExp): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => names.test(name)));
}

const NO_OPTION = '[text that is no option]';
export const BYTE_ORDER_MARK = '[byte order mark]';

/**
 * ssh repeats text of a configuration that it cannot parse. If the text is not an option name, it may be a line of a private key.
 */
function withoutWords(line: string, keys: Set<string>): string {
  const [, begin, file = '', word = ''] =
    /^((.*?)(?:: line \d+: Bad configuration option: | line \d+: no argument after keyword ))(.*)$/i.exec(
      line
    ) ?? [];
  if (begin === undefined) return line;
  // The bytes in ssh's notation, which is octal.
  if (/^(\\357\\273\\277|\ufeff)/.test(word) && line.includes(' line 1:')) return begin + BYTE_ORDER_MARK;
  // The only options of ssh and sshd with digits begin with X11 and PKCS11.
  if (!/^"?(x11|pkcs11)?[a-z]{2,40}:?"?\.?$/i.test(word)) keys.add(file);
  return keys.has(file) ? begin + NO_OPTION : line;
}

/** A connection counts as dead after three unanswered messages at this interval. */
const ALIVE_S = 5;
const CONNECT_S = 15;
/** The limit includes a ProxyCommand: on a slow machine, gcloud needs most of a minute to start. */
const PROXY_CONNECT_S = 45;

function option(name: string, value: string | number): [string, string] {
  return ['-o', `${name}=${value}`];
}

/** Arguments of the shared connection. It runs no command, and ignores forwardings in the user's files. */
export function masterArguments(
  target: SshTarget,
  controlPath: string,
  {
    mayPrompt,
    isProxied,
    mayFork = false
  }: {
    readonly mayPrompt: boolean;
    readonly isProxied: boolean;
    /** This ssh knows the options of OpenSSH 8.7, which allow the user's files to send it into the background. */
    readonly mayFork?: boolean;
  }
): string[] {
  return [
    '-N',
    '-T',
    ...option('ControlMaster', 'yes'),
    ...option('ControlPath', controlPath),
    ...option('ControlPersist', 'no'),
    ...option('BatchMode', mayPrompt ? 'no' : 'yes'),
    ...option('ServerAliveInterval', ALIVE_S),
    ...option('ServerAliveCountMax', 3),
    ...option('ConnectTimeout', target.connectTimeoutS ?? (isProxied ? PROXY_CONNECT_S : CONNECT_S)),
    ...option('ExitOnForwardFailure', 'yes'),
    ...option('StreamLocalBindUnlink', 'yes'),
    ...option('ClearAllForwardings', 'yes'),
    ...option('RemoteCommand', 'none'),
    // A process in the background would outlive us, and its end would stay unnoticed.
    ...(mayFork
      ? [
          ...option('ForkAfterAuthentication', 'no'),
          ...option('SessionType', 'none'),
          ...option('StdinNull', 'no')
        ]
      : []),
    ...option('PermitLocalCommand', 'no'),
    ...option('ForwardAgent', 'no'),
    ...option('ForwardX11', 'no'),
    // Otherwise ssh hides its errors if the user's file contains `LogLevel QUIET`.
    ...option('LogLevel', 'INFO'),
    ...withoutScope(target.destination),
    ...target.options,
    '--',
    target.destination
  ];
}

/** The C library resolves a scope only for addresses that have one: in IPv6, only `fe80:…`. */
function withoutScope(destination: string): string[] {
  const [, address] = /^(?:.*@)?([\da-f]*:[\da-f:.]*)%\w+$/i.exec(destination) ?? [];
  return address === undefined || /^fe[89ab]/i.test(address) ? [] : option('HostName', address);
}

export function isProxied({ options }: SshTarget): boolean {
  return options.some(word => /^ProxyCommand[= ]/i.test(word));
}

/**
 * Sends a request over that connection. `-F none` prevents forwardings of the user's files and the lookup of the host name.
 * If the connection has ended, ssh must not open another one, so the route to the host is a dead end.
 */
export function viaMaster(controlPath: string, more: readonly string[], command?: string): string[] {
  return [
    '-F',
    'none',
    ...option('ControlPath', controlPath),
    ...option('ControlMaster', 'no'),
    ...option('BatchMode', 'yes'),
    ...option('ProxyCommand', 'false'),
    ...option('LogLevel', 'ERROR'),
    ...more,
    '--',
    'remote',
    ...(command === undefined ? [] : [command])
  ];
}

/** `-L` from a local unix socket to one on the host. A colon would end the path. */
export function socketForward(localPath: string, remotePath: string): string[] {
  return ['-L', `${localPath}:${remotePath}`];
}
