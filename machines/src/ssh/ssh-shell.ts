/** Runs programs on a host over the open connection. */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createHash, randomBytes } from 'node:crypto';
import { PassThrough, type Readable, Transform, type TransformCallback, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import type { RemoteShell, ShellOptions, ShellResult } from '../machine.js';
import { plainText } from '@tpulab/platform/plain-text.js';
import { RemoteProblem } from '../remote-error.js';
import { explainHost, STARTUP_FILE } from './explain.js';
import { shown } from './ssh-config.js';
import { SshProcess, viaMaster } from './ssh-process.js';

/** Limit for each stream, more than any parsed output. */
const OUTPUT_CHARACTERS = 16 * 1024 * 1024;
const TAIL_CHARACTERS = 1024 * 1024;
/** Limit for each line; a longer one is cut. */
const LINE_CHARACTERS = 1024 * 1024;
const SMALL_STEP_MS = 60_000;
/** For the last error lines of a script that has ended, while a program of a start-up file keeps the output open. */
const LEFT_OPEN_MS = 1_000;
/** After this time without progress, an upload counts as stuck. */
const STALLED_MS = 60_000;
/** Attempts of an upload while the rest of a cut connection still arrives there. */
const MAX_ATTEMPTS = 3;

interface SshShellOptions {
  readonly program: string;
  readonly controlPath: string;
  readonly host: string;
  /** Runs before every script, without changing its arguments. */
  readonly preamble?: string | undefined;
}

export class SshShell implements RemoteShell {
  readonly host: string;
  #noise: string | null = null;
  #isHeldOpen = false;

  constructor(private readonly options: SshShellOptions) {
    this.host = options.host;
  }

  /** The open connection, for programs that use ssh themselves. */
  get transport(): { readonly program: string; readonly controlPath: string } {
    return this.options;
  }

  /** The first line of output of a start-up file there; null: none. */
  get noise(): string | null {
    return this.#noise;
  }

  /** A program that a start-up file there leaves running keeps the output of each command open; ssh waits for it. */
  get isHeldOpen(): boolean {
    return this.#isHeldOpen;
  }

  async run(script: string, args: readonly string[], options: ShellOptions): Promise<ShellResult> {
    const { stdin = '', signal, timeoutMs, onLine } = options;
    const { finish } = await this.#start(script, args, { signal, timeoutMs, stdin });
    return finish(onLine);
  }

  /** Runs a program with more input or output than memory should hold; the time limit is the life of the connection. */
  async stream(
    script: string,
    args: readonly string[],
    options: {
      readonly signal: AbortSignal;
      readonly stdin?: Readable | string | undefined;
      /** Receives standard output, and ends together with it. */
      readonly into?: Writable;
      readonly onLine?: (line: string) => void;
    }
  ): Promise<ShellResult> {
    const { signal, stdin = '', into } = options;
    const { answer, finish } = await this.#start(script, args, { signal, timeoutMs: null, stdin });
    if (into) answer.pipe(into);
    return finish(into ? 'piped' : options.onLine);
  }

  async upload(
    localPath: string,
    remotePath: string,
    {
      signal,
      onProgress
    }: { readonly signal: AbortSignal; readonly onProgress?: (bytes: number, total: number) => void }
  ): Promise<void> {
    const { size } = await stat(localPath);
    const sha256 = await sha256Of(localPath, signal);
    // Named after its content, so that the rest of another file is never taken for a part of this one.
    const part = `${remotePath}.${sha256.slice(0, 12)}.part`;
    const small = { signal, timeoutMs: SMALL_STEP_MS };
    const found = await this.run(PART_SIZE, [part, remotePath], small);
    const there = /^\d{1,15}$/.test(found.stdout.trim()) ? Number(found.stdout) : NaN;
    if (found.code !== 0 || Number.isNaN(there)) throw this.#notUploaded(remotePath, found.stderr);
    for (let from = there > size ? 0 : there, attempts = 1; ; from = 0, attempts += 1) {
      onProgress?.(from, size);
      const sent =
        from < size ? await this.#append({ localPath, part, from, size, signal, onProgress }) : SENT;
      const placed =
        sent.code === 0
          ? await this.run(PLACE, [part, remotePath, sha256], { signal, timeoutMs: 2 * SMALL_STEP_MS })
          : sent;
      if (placed.code === 0) return;
      // The machine may still receive commands and data of a cut connection: then the whole file is sent.
      if ((from === 0 && sent.code !== 0) || attempts === MAX_ATTEMPTS)
        throw this.#notUploaded(remotePath, placed.stderr);
    }
  }

  async #append(upload: {
    readonly localPath: string;
    readonly part: string;
    readonly from: number;
    readonly size: number;
    readonly signal: AbortSignal;
    readonly onProgress: ((bytes: number, total: number) => void) | undefined;
  }): Promise<{ readonly code: number; readonly stderr: string }> {
    const { localPath, part, from, size, signal, onProgress } = upload;
    const stalled = new AbortController();
    const limit = AbortSignal.any([signal, stalled.signal]);
    let timer = setTimeout(() => stalled.abort(), STALLED_MS);
    let sent = from;
    try {
      const source = createReadStream(localPath, { start: from });
      source.on('data', chunk => {
        sent += chunk.length;
        clearTimeout(timer);
        timer = setTimeout(() => stalled.abort(), STALLED_MS);
        onProgress?.(sent, size);
      });
      const { finish } = await this.#start(APPEND, [part, String(from)], {
        signal: limit,
        timeoutMs: null,
        stdin: source
      });
      return await finish();
    } finally {
      clearTimeout(timer);
    }
  }

  async #start(
    script: string,
    args: readonly string[],
    {
      signal,
      timeoutMs,
      stdin
    }: { readonly signal: AbortSignal; readonly timeoutMs: number | null; readonly stdin: Input }
  ) {
    signal.throwIfAborted();
    // Start reading now: if a program ends before its output is read, the output is lost.
    const input = isStream(stdin) ? pipelineTo(stdin) : stdin;
    const mark = `tpulab-${randomBytes(8).toString('hex')}`;
    const { program, controlPath, preamble = '' } = this.options;
    const hasInput = stdin !== '';
    const begin = `printf '\\n%s\\n' ${mark}\n${hasInput ? SKIP.replace('MARK', mark) : ''}`;
    const ssh = await SshProcess.start({
      program,
      args: viaMaster(controlPath, ['-T'], `${shellCommand(`${preamble}\n${begin}${script}`, args)} ${mark}`)
    });
    const answer = new Answer(mark, () => {
      setTimeout(() => {
        if (ssh.isOver) return;
        this.#isHeldOpen = true;
        void ssh.end();
      }, LEFT_OPEN_MS).unref();
    });
    ssh.child.stdout.pipe(answer);
    // A cut pipe emits no `end`.
    ssh.child.stdout.once('close', () => {
      if (!answer.writableEnded) answer.end();
    });
    void answer.begun.then(() => (this.#noise ??= firstLineOf(answer.noise)));
    // The exit of the program there reports the failure.
    if (hasInput) void feed(ssh, answer, mark, input).catch(() => ssh.child.stdin.destroy());
    else ssh.child.stdin.end();
    let isLate = false;
    const timer =
      timeoutMs === null
        ? null
        : setTimeout(() => {
            isLate = true;
            void ssh.end();
          }, timeoutMs);
    const abort = (): void => void ssh.end();
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    const finish = async (output?: 'piped' | ((line: string) => void)): Promise<ShellResult> => {
      const stdout = output === 'piped' ? '' : await collect(answer, output);
      const ended = await ssh.ended;
      const code = answer.code ?? ended.code;
      const stderr = ssh.errors.join('\n');
      if (timer) clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      if (signal.aborted) throw abortProblem(signal);
      const hasBegun = await answer.begun;
      if (!hasBegun && (isLate || code === null)) throw notBegun(this.host, answer.noise);
      if (isLate && answer.code === null) {
        throw new RemoteProblem(
          'remote_timeout',
          `A command on ${this.host} has not ended within ${Math.round((timeoutMs ?? 0) / 1000)} s.`
        );
      }
      // 255 is ssh's own code: the connection has ended, or was unusable.
      if (code === null || (code === 255 && answer.code === null)) {
        throw (
          (code === 255 ? explainHost(this.host, stderr) : null) ??
          new RemoteProblem(
            'remote_lost',
            `The connection to ${this.host} ended ${hasBegun ? 'while' : 'before'} a command ran there (${stderr.trim().slice(-300) || 'no reason given'}).${hasBegun ? '' : ` A ${STARTUP_FILE} may end its shell.`}`
          )
        );
      }
      if (!hasBegun) {
        const words = answer.noise || stderr;
        throw explainHost(this.host, words) ?? notRun(this.host, code, words);
      }
      return { code, stdout, stderr };
    };
    return { answer, finish };
  }

  #notUploaded(file: string, output: string): RemoteProblem {
    const why = output.trim().split('\n').at(-1) || 'no reason given';
    return (
      explainHost(this.host, output) ??
      new RemoteProblem('remote_upload_failed', `${file} could not be written on ${this.host} (${why}).`)
    );
  }
}

type Input = string | Uint8Array | Readable;

/**
 * Skips input before ours that a start-up file has not read. Scripts may request `UNREAD`. Input that ends before ours
 * belongs to a cut connection whose command arrived late: it must not run at the same time as the command of the next
 * connection.
 */
const SKIP = `tpulab_unread=0
while IFS= read -r tpulab_line || { echo "no input arrives; a ${STARTUP_FILE} discards it" >&2; exit 1; }; do [ "$tpulab_line" = MARK ] && break; tpulab_unread=1; done
`;
/** 0 in a script with input: a start-up file there has read input of the script. */
export const UNREAD = '$tpulab_unread';
/** A start-up file that prompts gets an empty line, immediately and at every prompt, so that it continues. */
const NEWLINE_MS = 2_000;
const SILENT_MS = 60_000;

function isStream(input: Input): input is Readable {
  return typeof input === 'object' && 'pipe' in input;
}

function pipelineTo(input: Readable): PassThrough {
  const buffered = new PassThrough();
  pipeline(input, buffered).catch(() => undefined);
  return buffered;
}

/** Sends our input after the script has begun: before that, a start-up file might read it. */
async function feed(ssh: SshProcess, answer: Answer, mark: string, input: Input): Promise<void> {
  const { stdin } = ssh.child;
  stdin.write('\n');
  const newlines = setInterval(() => stdin.write('\n'), NEWLINE_MS);
  const silent = setTimeout(() => void ssh.end(), SILENT_MS);
  try {
    if (!(await answer.begun)) return;
  } finally {
    clearInterval(newlines);
    clearTimeout(silent);
  }
  stdin.write(`${mark}\n`);
  if (isStream(input)) await pipeline(input, stdin);
  else stdin.end(input);
}

const NOISE_BYTES = 4096;

/** What stands behind the last mark. */
const CODE = /^ \d{3}$/;
const CODE_BYTES = 4;
const NOTHING = Buffer.alloc(0);

/**
 * The host's output between our two marks. Start-up files of a login shell may print anything before the first one, and a
 * program that they leave running, for which ssh itself would wait, anything after the second.
 */
class Answer extends Transform {
  /** False: the output ended without the first mark. */
  readonly begun: Promise<boolean>;
  /** The script's exit code, once all of its output was read. */
  code: number | null = null;
  readonly #first: Buffer;
  readonly #last: Buffer;
  #settle!: (hasBegun: boolean) => void;
  #hasBegun = false;
  #noise: Buffer = NOTHING;
  /** The end of what was read, where a mark may begin. */
  #tail: Buffer = NOTHING;

  constructor(
    mark: string,
    private readonly onEnd: () => void
  ) {
    super();
    this.#first = Buffer.from(`\n${mark}\n`);
    this.#last = Buffer.from(mark);
    this.begun = new Promise(resolve => (this.#settle = resolve));
    this.once('close', () => this.#settle(false));
  }

  /** The beginning of the earlier output. */
  get noise(): string {
    return this.#noise.toString('utf8');
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const read = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    this.#tail = NOTHING;
    if (this.#hasBegun) this.#pass(read);
    else this.#skip(read);
    done();
  }

  #skip(read: Buffer): void {
    const at = read.indexOf(this.#first);
    const before = at < 0 ? Math.max(read.length - this.#first.length, 0) : at;
    this.#addNoise(read.subarray(0, before));
    if (at < 0) {
      this.#tail = read.subarray(before);
      return;
    }
    this.#hasBegun = true;
    this.#settle(true);
    this.#pass(read.subarray(at + this.#first.length));
  }

  #pass(read: Buffer): void {
    let from = 0;
    while (this.code === null) {
      const at = read.indexOf(this.#last, from);
      const behind = at + this.#last.length;
      const text = read.toString('latin1', behind, behind + CODE_BYTES);
      if (at < 0 || text.length < CODE_BYTES) {
        const whole = at < 0 ? read.length - this.#beginning(read.subarray(from)) : at;
        this.push(read.subarray(0, whole));
        this.#tail = read.subarray(whole);
        return;
      }
      from = behind;
      // A list of processes contains the mark too.
      if (!CODE.test(text)) continue;
      this.push(read.subarray(0, at));
      this.code = Number(text);
      this.onEnd();
    }
  }

  /** Length of the end of `read` with which the last mark may begin. */
  #beginning(read: Buffer): number {
    let length = Math.min(read.length, this.#last.length - 1);
    while (!this.#last.subarray(0, length).equals(read.subarray(read.length - length))) length--;
    return length;
  }

  #addNoise(bytes: Buffer): void {
    this.#noise = Buffer.concat([this.#noise, bytes]).subarray(0, NOISE_BYTES);
  }

  override _flush(done: TransformCallback): void {
    if (this.#hasBegun) this.push(this.#tail);
    else this.#addNoise(this.#tail);
    this.#settle(this.#hasBegun);
    done();
  }
}

function firstLineOf(text: string): string | null {
  for (const line of text.split('\n')) {
    const plain = plainText(line, 120).trim();
    if (plain !== '') return plain;
  }
  return null;
}

/** The login shell there waits, or does not end, before it runs our command. */
function notBegun(host: string, output: string): RemoteProblem {
  return new RemoteProblem(
    'remote_timeout',
    `${host} let us in, and has not begun our command in time${quotedLine(output)}. A ${STARTUP_FILE} waits for something, such as an answer, another program or a disk. The command prints ok when it does not.`,
    { command: `ssh ${shown(host)} 'echo ok'`, recovery: 'person' }
  );
}

function quotedLine(output: string): string {
  const line = firstLineOf(output);
  return line === null ? '' : ` (it said "${line}")`;
}

/** The login shell there ended before it ran our command. */
function notRun(host: string, code: number, output: string): RemoteProblem {
  return new RemoteProblem(
    'remote_command_refused',
    `${host} let us in, and ended with code ${code} before our command ran${quotedLine(output)}. A ${STARTUP_FILE} exits, starts another shell or discards what is printed, or the account may not run commands. The command prints ok where it may.`,
    { command: `ssh ${shown(host)} 'echo ok'` }
  );
}

/** Size of the existing part of the file; creates its folder. */
const PART_SIZE = `umask 077
mkdir -p -- "$(dirname -- "$2")" || exit 1
if [ -f "$1" ]; then wc -c < "$1"; else echo 0; fi`;

const SENT = { code: 0, stderr: '' };

/** Resumes an earlier upload if the part still has this size. */
const APPEND = `umask 077
if [ "$2" = 0 ]; then rm -f -- "$1" && exec cat > "$1"; fi
[ "$(wc -c < "$1")" -eq "$2" ] || { echo "$1 has changed meanwhile" >&2; exit 1; }
exec cat >> "$1"`;

/** A part with a wrong checksum is removed, so that the next attempt sends the whole file. */
const PLACE = `sum=$( (sha256sum -- "$1" || shasum -a 256 -- "$1") 2>/dev/null | cut -c 1-64)
if [ "$sum" != "$3" ]; then rm -f -- "$1"; echo "the copy differs from the original" >&2; exit 1; fi
mv -f -- "$1" "$2"`;

export async function sha256Of(file: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash, { signal });
  return hash.digest('hex');
}

/** Collects the text, dropping the beginning of enormous output; passes each line on as it arrives. */
async function collect(stream: NodeJS.ReadableStream, onLine?: (line: string) => void): Promise<string> {
  const decoder = new StringDecoder('utf8');
  let text = '';
  let line = '';
  const addPiece = (piece: string): void => {
    text += piece;
    if (text.length > OUTPUT_CHARACTERS) text = text.slice(-TAIL_CHARACTERS);
    if (!onLine) return;
    const lines = (line + piece).split('\n');
    line = (lines.pop() ?? '').slice(0, LINE_CHARACTERS);
    lines.forEach(onLine);
  };
  stream.on('data', (chunk: Buffer) => addPiece(decoder.write(chunk)));
  await Promise.race([once(stream, 'end'), once(stream, 'close')]);
  addPiece(decoder.end());
  if (line !== '') onLine?.(line);
  return text;
}

function abortProblem(signal: AbortSignal): Error {
  if (signal.reason instanceof RemoteProblem) return signal.reason;
  return new RemoteProblem('remote_interrupted', 'The command on the remote machine was interrupted.', {
    cause: signal.reason
  });
}

/**
 * A script with arguments as one command line that every login shell parses in the same way (sh, bash, zsh, fish, csh): it
 * contains only letters, digits and one pair of quotes, and the script itself is Base64 until sh reads it. Another
 * word after it is printed behind the output, with the exit code in three digits.
 */
const RUN = `exec sh -c '(eval "$(printf %s "$1" | base64 -d)"); code=$?; [ -z "$2" ] || printf "%s %03d" "$2" "$code"; exit $code' tpulab`;

export function shellCommand(script: string, args: readonly string[]): string {
  const text = `set -- ${args.map(quoted).join(' ')}\n${script}\n`;
  return `${RUN} ${Buffer.from(text, 'utf8').toString('base64')}`;
}

export function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}
