/** Forwards the questions of ssh (a passphrase, a password, an unknown host key) to a person or program that can answer them. */
import { randomBytes } from 'node:crypto';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { jsonIn } from '@tpulab/platform/json-text.js';

export interface Question {
  readonly kind: 'secret' | 'confirm';
  readonly text: string;
}

/** Resolves with the answer; null: no answer will come. */
export type Answerer = (question: Question, signal: AbortSignal) => Promise<string | null>;

const QUESTION_CHARACTERS = 16 * 1024;

export class Askpass implements AsyncDisposable {
  readonly #answerers = new Map<string, Answerer>();
  readonly #sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    private readonly folder: string
  ) {
    server.on('connection', socket => this.#serve(socket));
  }

  /** @param folder readable only for this user, with a short path */
  static async open(folder: string): Promise<Askpass> {
    const server = createServer();
    const askpass = new Askpass(server, folder);
    await writeFile(askpass.#script, ASKPASS_SCRIPT, { mode: 0o600 });
    await writeFile(askpass.#program, askpassStarter(process.execPath, askpass.#script), { mode: 0o700 });
    // The mode above applies only to a new file.
    await chmod(askpass.#program, 0o700);
    await rm(askpass.#socketPath, { force: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(askpass.#socketPath, resolve);
    });
    await chmod(askpass.#socketPath, 0o600);
    server.unref();
    return askpass;
  }

  /** Variables that make an ssh use this answerer, until it is disposed. */
  register(answerer: Answerer): { readonly env: Readonly<Record<string, string>> } & Disposable {
    const key = randomBytes(16).toString('hex');
    this.#answerers.set(key, answerer);
    return {
      env: {
        SSH_ASKPASS: this.#program,
        SSH_ASKPASS_REQUIRE: 'force',
        // OpenSSH before 8.4 has no "force": it uses askpass if it has a display and no terminal.
        DISPLAY: process.env['DISPLAY'] || ':0',
        TPULAB_ASKPASS_SOCKET: this.#socketPath,
        TPULAB_ASKPASS_KEY: key
      },
      [Symbol.dispose]: () => void this.#answerers.delete(key)
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#answerers.clear();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise(resolve => this.server.close(resolve));
    for (const file of [this.#script, this.#program, this.#socketPath]) await rm(file, { force: true });
  }

  get #script(): string {
    return path.join(this.folder, 'askpass.cjs');
  }

  get #program(): string {
    return path.join(this.folder, 'askpass');
  }

  get #socketPath(): string {
    return path.join(this.folder, 'ask.sock');
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    const closed = new AbortController();
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#sockets.delete(socket);
      closed.abort();
    });
    let text = '';
    let isReceived = false;
    socket.setEncoding('utf8');
    socket.on('data', (piece: string) => {
      text += piece;
      if (text.length > QUESTION_CHARACTERS) socket.destroy();
      else if (!isReceived && text.includes('\n')) {
        isReceived = true;
        void this.#answer(socket, text, closed.signal);
      }
    });
  }

  async #answer(socket: Socket, text: string, signal: AbortSignal): Promise<void> {
    const question = parse(text);
    const answerer = question && this.#answerers.get(question.key);
    if (!question || !answerer) {
      socket.destroy();
      return;
    }
    // ssh only shows a message ("touch your security key"), and ends this program itself.
    if (question.hint === 'none') return;
    const value = await answerer(question.question, signal).catch(() => null);
    if (!socket.destroyed) socket.end(JSON.stringify({ value }));
  }
}

function parse(text: string): { key: string; hint: string; question: Question } | null {
  const { key, text: prompt, hint } = (jsonIn(text) ?? {}) as Record<'key' | 'text' | 'hint', unknown>;
  if (typeof key !== 'string' || typeof prompt !== 'string' || typeof hint !== 'string') return null;
  const isConfirm = hint === 'confirm' || /\(yes\/no/.test(prompt);
  return { key, hint, question: { kind: isConfirm ? 'confirm' : 'secret', text: prompt.trim() } };
}

/**
 * The program that ssh runs for a question. It passes the question to the gateway over a unix socket and prints the answer,
 * which is never on a command line or in a file. The program is stored as text, so that every kind of package contains it.
 */
const ASKPASS_SCRIPT = `'use strict';
const { connect } = require('node:net');
const socket = connect(process.env.TPULAB_ASKPASS_SOCKET);
let answer = '';
socket.setEncoding('utf8');
socket.on('connect', () => {
  const question = {
    key: process.env.TPULAB_ASKPASS_KEY,
    text: process.argv.slice(2).join(' '),
    hint: process.env.SSH_ASKPASS_PROMPT || ''
  };
  socket.write(JSON.stringify(question) + '\\n');
});
socket.on('data', text => { answer += text; });
socket.on('error', () => process.exit(1));
socket.on('close', () => {
  let value = null;
  try { value = JSON.parse(answer).value; } catch {}
  if (typeof value !== 'string') process.exit(1);
  process.stdout.write(value + '\\n', () => process.exit(0));
});
`;

/** The program that ssh starts; ssh accepts one path without arguments. */
function askpassStarter(node: string, script: string): string {
  return `#!/bin/sh\nexec ${quoted(node)} ${quoted(script)} "$@"\n`;
}

function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}
