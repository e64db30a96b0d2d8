/** Programs on a host, over the connection that stands. */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import type { RemoteShell, ShellOptions, ShellResult } from '../contracts.js';
import { RemoteProblem } from '../remote-error.js';
import { SshProcess, viaMaster } from './ssh-process.js';

/** Of each stream; more than any answer that is looked at. */
const OUTPUT_CHARACTERS = 16 * 1024 * 1024;
const TAIL_CHARACTERS = 1024 * 1024;
/** Of one line as it comes; a longer one is cut. */
const LINE_CHARACTERS = 1024 * 1024;
const SMALL_STEP_MS = 60_000;
/** Without a byte taken for so long, an upload counts as stuck. */
const STALLED_MS = 60_000;

export interface SshShellOptions {
  readonly program: string;
  readonly controlPath: string;
  readonly host: string;
  /** Runs before every script, without changing its arguments. */
  readonly preamble?: string | undefined;
}

export class SshShell implements RemoteShell {
  readonly host: string;
  readonly #options: SshShellOptions;

  constructor(options: SshShellOptions) {
    this.#options = options;
    this.host = options.host;
  }

  /** For programs that bring their own ssh: the connection that stands. */
  get transport(): { readonly program: string; readonly controlPath: string } {
    return this.#options;
  }

  async run(script: string, args: readonly string[], options: ShellOptions): Promise<ShellResult> {
    const { ssh, finish } = await this.#start(script, args, options.signal, options.timeoutMs);
    ssh.child.stdin.end(options.stdin ?? '');
    return finish(options.onLine);
  }

  /** A program whose input or output is more than memory should hold; it may take as long as the connection stands. */
  async stream(
    script: string,
    args: readonly string[],
    options: {
      readonly signal: AbortSignal;
      readonly stdin?: Readable | string | undefined;
      /** Takes its standard output, and is ended with it. */
      readonly into?: Writable;
      readonly onLine?: (line: string) => void;
    }
  ): Promise<ShellResult> {
    const { ssh, finish } = await this.#start(script, args, options.signal, null);
    const { stdin = '', into } = options;
    if (into) ssh.child.stdout.pipe(into);
    const result = finish(into ? 'piped' : options.onLine);
    // How it ends is told by the program there.
    if (typeof stdin === 'string') ssh.child.stdin.end(stdin);
    else void pipeline(stdin, ssh.child.stdin).catch(() => undefined);
    return result;
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
    const sha256 = await digestOf(localPath, signal);
    // Named after its content, so that what is left of another file is never taken for a part of this one.
    const part = `${remotePath}.${sha256.slice(0, 12)}.part`;
    const small = { signal, timeoutMs: SMALL_STEP_MS };
    const found = await this.run(PART_SIZE, [part, remotePath], small);
    const there = Number(found.stdout.trim());
    if (found.code !== 0 || !Number.isSafeInteger(there)) throw this.#notUploaded(remotePath, found.stderr);
    const from = there > size ? 0 : there;
    onProgress?.(from, size);
    if (from < size) await this.#append({ localPath, part, from, size, signal, onProgress });
    const placed = await this.run(PLACE, [part, remotePath, sha256], {
      signal,
      timeoutMs: 2 * SMALL_STEP_MS
    });
    if (placed.code !== 0) throw this.#notUploaded(remotePath, placed.stderr);
  }

  async #append(upload: {
    readonly localPath: string;
    readonly part: string;
    readonly from: number;
    readonly size: number;
    readonly signal: AbortSignal;
    readonly onProgress: ((bytes: number, total: number) => void) | undefined;
  }): Promise<void> {
    const { localPath, part, from, size, signal, onProgress } = upload;
    const stalled = new AbortController();
    const limit = AbortSignal.any([signal, stalled.signal]);
    let timer = setTimeout(() => stalled.abort(), STALLED_MS);
    const { ssh, finish } = await this.#start(APPEND, [part, String(from)], limit, null);
    const result = finish();
    // Its failure is told below, with what the host says.
    result.catch(() => undefined);
    let sent = from;
    try {
      const source = createReadStream(localPath, { start: from });
      source.on('data', chunk => {
        sent += chunk.length;
        clearTimeout(timer);
        timer = setTimeout(() => stalled.abort(), STALLED_MS);
        onProgress?.(sent, size);
      });
      await pipeline(source, ssh.child.stdin, { signal: limit }).catch(() => undefined);
      const { code, stderr } = await result;
      if (code !== 0) throw this.#notUploaded(part, stderr);
    } finally {
      clearTimeout(timer);
    }
  }

  async #start(script: string, args: readonly string[], signal: AbortSignal, timeoutMs: number | null) {
    signal.throwIfAborted();
    const ssh = await SshProcess.start({
      program: this.#options.program,
      args: viaMaster(
        this.#options.controlPath,
        ['-T'],
        shellCommand(`${this.#options.preamble ?? ''}\n${script}`, args)
      )
    });
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
      const stdout = output === 'piped' ? '' : await collect(ssh.child.stdout, output);
      const { code } = await ssh.ended;
      const stderr = ssh.errors.join('\n');
      if (timer) clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      if (signal.aborted) throw abortProblem(signal);
      if (isLate) {
        throw new RemoteProblem(
          'remote_timeout',
          `A command on ${this.host} has not ended within ${Math.round((timeoutMs ?? 0) / 1000)} s.`
        );
      }
      // 255 is ssh's own: the connection has ended, or could not be used.
      if (code === null || code === 255) {
        throw new RemoteProblem(
          'remote_lost',
          `The connection to ${this.host} ended while a command ran there (${stderr.trim().slice(-300) || 'no reason given'}).`
        );
      }
      return { code, stdout, stderr };
    };
    return { ssh, finish };
  }

  #notUploaded(file: string, words: string): RemoteProblem {
    const why = words.trim().split('\n').at(-1) ?? '';
    if (/No space left|Disk quota exceeded/i.test(words)) {
      return new RemoteProblem(
        'remote_disk_full',
        `The disk of ${this.host} is full (${why}); free some space there, then connect again.`
      );
    }
    return new RemoteProblem(
      'remote_upload_failed',
      `${file} could not be written on ${this.host} (${why || 'no reason given'}).`
    );
  }
}

/** Size of what is there of the file; its folder is made. */
const PART_SIZE = `umask 077
mkdir -p -- "$(dirname -- "$2")" || exit 1
if [ -f "$1" ]; then wc -c < "$1"; else echo 0; fi`;

/** Goes on where an earlier one ended. What does not have this size any more is cut to it. */
const APPEND = `umask 077
if [ "$2" = 0 ]; then exec cat > "$1"; fi
[ "$(wc -c < "$1")" -eq "$2" ] || { echo "$1 has changed meanwhile" >&2; exit 1; }
exec cat >> "$1"`;

/** What does not have the right sum is removed, so that the next attempt begins anew. */
const PLACE = `sum=$( (sha256sum -- "$1" || shasum -a 256 -- "$1") 2>/dev/null | cut -c 1-64)
if [ "$sum" != "$3" ]; then rm -f -- "$1"; echo "the copy differs from the original" >&2; exit 1; fi
mv -f -- "$1" "$2"`;

async function digestOf(file: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash, { signal });
  return hash.digest('hex');
}

/** The text, cut at its beginning when it is enormous; lines are handed on as they come. */
async function collect(stream: NodeJS.ReadableStream, onLine?: (line: string) => void): Promise<string> {
  const decoder = new StringDecoder('utf8');
  let text = '';
  let line = '';
  const take = (piece: string): void => {
    text += piece;
    if (text.length > OUTPUT_CHARACTERS) text = text.slice(-TAIL_CHARACTERS);
    if (!onLine) return;
    const lines = (line + piece).split('\n');
    line = (lines.pop() ?? '').slice(0, LINE_CHARACTERS);
    lines.forEach(onLine);
  };
  stream.on('data', (chunk: Buffer) => take(decoder.write(chunk)));
  await Promise.race([once(stream, 'end'), once(stream, 'close')]);
  take(decoder.end());
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
 * A script with arguments as one command line that every login shell understands alike (sh, bash, zsh, fish, csh): there is
 * nothing in it but letters, digits and one pair of quotes, and the script itself is Base64 until sh reads it.
 */
const RUN = `exec sh -c 'eval "$(printf %s "$1" | base64 -d)"' tpulab`;

export function shellCommand(script: string, args: readonly string[]): string {
  const text = `set -- ${args.map(quoted).join(' ')}\n${script}\n`;
  return `${RUN} ${Buffer.from(text, 'utf8').toString('base64')}`;
}

/** For a POSIX shell. */
export function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}
