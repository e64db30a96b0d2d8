/** Runs ssh, and ends it when it is no longer wanted. What the user's own configuration says of keys, hosts and proxies stays in force. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { RemoteProblem } from '../remote-error.js';
import type { SshTarget } from './ssh-config.js';

/** Kept of what it wrote to standard error: enough to explain how it ended. */
const MAX_LINES = 100;
const MAX_CHARACTERS = 2_000;
/** As `packet.c` of OpenSSH has it. */
export const FAREWELL = /^Received disconnect from /;
const END_WAIT_MS = 2_000;

export interface SshProcessOptions {
  readonly program: string;
  readonly args: readonly string[];
  /** Absent: it only asks a connection that stands. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly onErrorLine?: (line: string) => void;
}

export class SshProcess {
  readonly errors: string[] = [];
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves when it has ended and all it wrote has been read. */
  readonly ended: Promise<{ readonly code: number | null }>;
  #isOver = false;
  #isFarewell = false;
  /** Files that are no configuration. */
  readonly #keys = new Set<string>();

  private constructor(child: ChildProcessWithoutNullStreams, options: SshProcessOptions) {
    this.child = child;
    const stderr = createInterface({ input: child.stderr });
    stderr.on('line', line => {
      // ssh prints the farewell of whoever answered, with its line ends, also before a host key was checked. What follows is theirs.
      if (this.#isFarewell) return;
      this.#isFarewell = FAREWELL.test(line);
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
    // A session of its own: Ctrl+C in the gateway's terminal ends it through us, and it finds no terminal to ask on.
    const child = spawn(options.program, options.args, {
      detached: true,
      env: options.env ?? passed(REQUEST_VARIABLES)
    });
    // A pipe that breaks is told by the end of the program.
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
    // The connection that it used has been handed its pipes, and holds them for as long as the program on the host runs.
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

  /** The whole group: a ProxyCommand must not stay behind. */
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
 * What an ssh of ours sees of the gateway's environment, whose tokens and keys are no business of a host: where programs, keys and the
 * user's files are, and what a ProxyCommand needs to run. Nothing else, so that no expansion finds a secret.
 */
const PASSED_VARIABLES =
  /^(PATH|HOME|SSH_AUTH_SOCK|LANG|LC_[A-Z]+|USER|LOGNAME|SHELL|TMPDIR|KRB5CCNAME|XDG_[A-Z]+_(DIR|HOME)|CLOUDSDK_[A-Z_]+|GOOGLE_APPLICATION_CREDENTIALS|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE)$/i;
/** Of a request to a connection that stands: it only has to be found. */
const REQUEST_VARIABLES = /^(PATH|HOME|SSH_AUTH_SOCK)$/;

/** Of a process that makes a connection. @param more how it asks a person */
export function sshEnvironment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  return { ...passed(PASSED_VARIABLES), ...more };
}

function passed(names: RegExp): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => names.test(name)));
}

const NO_OPTION = '[text that is no option]';
export const BYTE_ORDER_MARK = '[byte order mark]';

/** ssh repeats what it does not understand in a configuration. Where that is no name of an option, it may be a line of a private key. */
function withoutWords(line: string, keys: Set<string>): string {
  const [, begin, file = '', word = ''] =
    /^((.*?)(?:: line \d+: Bad configuration option: | line \d+: no argument after keyword ))(.*)$/i.exec(
      line
    ) ?? [];
  if (begin === undefined) return line;
  // As ssh prints it: its bytes in octal.
  if (/^(\\357\\273\\277|\ufeff)/.test(word) && line.includes(' line 1:')) return begin + BYTE_ORDER_MARK;
  if (!/^"?[a-z]{2,40}:?"?\.?$/i.test(word)) keys.add(file);
  return keys.has(file) ? begin + NO_OPTION : line;
}

/** A connection counts as dead after three of these without an answer. */
const ALIVE_S = 5;
const CONNECT_S = 15;
/** The command of a proxy counts: gcloud's own start takes most of a minute on a slow machine. */
const PROXY_CONNECT_S = 45;

function option(name: string, value: string | number): [string, string] {
  return ['-o', `${name}=${value}`];
}

/** The connection that all else goes through. It runs no command and forwards nothing that the user's files may ask for. */
export function masterArguments(
  target: SshTarget,
  controlPath: string,
  {
    askable,
    isProxied,
    mayFork = false
  }: {
    readonly askable: boolean;
    readonly isProxied: boolean;
    /** This ssh knows the options of OpenSSH 8.7, with which the user's files may send it into the background. */
    readonly mayFork?: boolean;
  }
): string[] {
  return [
    '-N',
    '-T',
    ...option('ControlMaster', 'yes'),
    ...option('ControlPath', controlPath),
    ...option('ControlPersist', 'no'),
    ...option('BatchMode', askable ? 'no' : 'yes'),
    ...option('ServerAliveInterval', ALIVE_S),
    ...option('ServerAliveCountMax', 3),
    ...option('ConnectTimeout', target.connectTimeoutS ?? (isProxied ? PROXY_CONNECT_S : CONNECT_S)),
    ...option('ExitOnForwardFailure', 'yes'),
    ...option('StreamLocalBindUnlink', 'yes'),
    ...option('ClearAllForwardings', 'yes'),
    ...option('RemoteCommand', 'none'),
    // A process in the background would outlive us, and its end would tell nothing.
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
    // Or its reasons stay unsaid where the user's file has `LogLevel QUIET`.
    ...option('LogLevel', 'INFO'),
    ...withoutScope(target.destination),
    ...target.options,
    '--',
    target.destination
  ];
}

/** The C library resolves no scope of an address that has none: of IPv6, only `fe80:…` does. */
function withoutScope(destination: string): string[] {
  const [, address] = /^(?:.*@)?([\da-f]*:[\da-f:.]*)%\w+$/i.exec(destination) ?? [];
  return address === undefined || /^fe[89ab]/i.test(address) ? [] : option('HostName', address);
}

export function isProxied({ options }: SshTarget): boolean {
  return options.some(word => /^ProxyCommand[= ]/i.test(word));
}

/**
 * A request to that connection. `-F none`: forwardings of the user's files must not be added, and the host name is not
 * looked up. Where the connection has gone there must be no other one in its place, so the way to the host is a dead end.
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

/** `-L` of a unix socket here to one there. A colon would end the path. */
export function socketForward(localPath: string, remotePath: string): string[] {
  return ['-L', `${localPath}:${remotePath}`];
}
