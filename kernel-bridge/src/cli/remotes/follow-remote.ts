/**
 * Follows a remote until it is connected or has failed: shows each stage as it arrives, and passes questions of ssh to the
 * person.
 */
import type { Remote, RemotePrompt, RemoteStage } from '@tpulab/protocol';
import type { OutputOptions, Streams } from '../output.js';
import { GatewayRefusal } from '../running-gateway.js';
import type { RemoteCalls } from './remote-calls.js';
import { stageText } from './remotes-text.js';
import { pause } from '@tpulab/platform/waiting.js';
import { forTerminal } from '@tpulab/platform/plain-text.js';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

const POLL_MS = 200;
const CONTROL = '\r\u001b[K';

export interface FollowOptions extends OutputOptions {
  readonly calls: RemoteCalls;
  readonly name: string;
  readonly streams: Streams;
  readonly ask: Prompter;
  readonly signal: AbortSignal;
}

/** Throws the error of a failed remote, and `remote_question_unanswered` if there is no terminal for a question. */
export async function followRemote(options: FollowOptions): Promise<Remote> {
  const { calls, name, ask: request, signal } = options;
  const show = new Progress(options);
  const shownPrompts = new Set<string>();
  try {
    for (;;) {
      signal.throwIfAborted();
      const remote = await calls.get(name);
      show.take(remote);
      const { state, prompt, error } = remote;
      if (state === 'connected') return remote;
      const action = state === 'failed' ? error?.action : null;
      if (error && action && !shownPrompts.has(action.label)) {
        shownPrompts.add(action.label);
        show.pause();
        const text = `${error.message}\n${action.label}? (yes/no)`;
        const isConfirmed = await request({ id: error.code, kind: 'confirm', text, host: name }, signal);
        if (isConfirmed === true) {
          await calls.connect(name, action.connect);
          continue;
        }
      }
      if (state === 'failed' || state === 'preempted' || state === 'disconnected') {
        throw new GatewayRefusal(error?.code ?? 'remote_interrupted', failureText(remote));
      }
      if (prompt && !shownPrompts.has(prompt.id)) {
        shownPrompts.add(prompt.id);
        show.pause();
        const value = await request(prompt, signal);
        if (value === null) {
          throw new GatewayRefusal(
            'remote_question_unanswered',
            `${prompt.kind === 'consent' ? `${prompt.text}\nOnly a person can agree` : `ssh asks "${prompt.text}"`}, and there is no terminal to ask. Run "tpulab connect ${name}" in one, or answer in JupyterLab.`
          );
        }
        await calls.answer(name, { id: prompt.id, value });
      }
      await pause(POLL_MS, signal);
    }
  } finally {
    show.pause();
  }
}

function failureText({ name, error }: Remote): string {
  if (!error) return `${name} was disconnected meanwhile.`;
  return error.command === null ? error.message : `${error.message}\n  $ ${error.command}`;
}

/** On a terminal the running stage is one changing line; otherwise, and as JSON, each change is a line. */
class Progress {
  readonly #isLive: boolean;
  readonly #printed = new Map<string, string>();
  #state = '';
  #hasLine = false;

  constructor(private readonly options: FollowOptions) {
    this.#isLive = options.json !== true && process.stderr.isTTY;
  }

  take({ name, state, stages, nextAttemptAt, error, queue }: Remote): void {
    const { streams, json } = this.options;
    for (const stage of stages) this.#stage(stage);
    if (state === this.#state) return;
    this.#state = state;
    if (json === true) {
      streams.stdout.write(
        `${JSON.stringify({ name, state, nextAttemptAt, error, ...(queue ? { queue } : {}) })}\n`
      );
    } else if (state === 'reconnecting') {
      this.pause();
      streams.stderr.write(`${error?.message ?? ''} Retrying.\n`);
    } else if (state === 'queued') {
      this.pause();
      streams.stderr.write(
        `${name} is waiting for Google Cloud (${queue?.state ?? 'queued'}). TPULab connects as soon as it is ready, even after Ctrl+C; "tpulab machine disconnect ${name}" stops that.\n`
      );
    }
  }

  pause(): void {
    if (this.#hasLine) this.options.streams.stderr.write(CONTROL);
    this.#hasLine = false;
  }

  #stage(stage: RemoteStage): void {
    const { streams, json } = this.options;
    const text = json === true ? JSON.stringify({ stage }) : stageText(stage);
    const isLine = json === true || stage.state !== 'running';
    const before = this.#printed.get(stage.name);
    if (before === text) return;
    // Without a live line, each percentage would be a separate line.
    if (!this.#isLive && json !== true && stage.state === 'running' && before !== undefined) return;
    this.#printed.set(stage.name, text);
    if (json === true) streams.stdout.write(`${text}\n`);
    else if (this.#isLive) {
      streams.stderr.write(`${CONTROL}${text}${isLine ? '\n' : ''}`);
      this.#hasLine = !isLine;
    } else streams.stderr.write(`${text}\n`);
  }
}

/** null: there is no person at this terminal to ask. */
export type Prompter = (prompt: RemotePrompt, signal: AbortSignal) => Promise<string | boolean | null>;

/** Asks the person at the terminal the question of ssh. Typed secrets are not shown. */
export const promptOnTerminal: Prompter = async (prompt, signal) => {
  if (!process.stdin.isTTY) return null;
  process.stderr.write(`${forTerminal(prompt.text).replace(/\s*$/, '')} `);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const isSecret = prompt.kind === 'secret';
  const terminal = createInterface({
    input: process.stdin,
    output: isSecret ? silent : process.stderr,
    terminal: true
  });
  try {
    return await new Promise<string | boolean>(resolve => {
      const decline = (): void => resolve(false);
      terminal.once('line', line => resolve(isSecret ? line : answerOf(line)));
      terminal.once('SIGINT', decline);
      terminal.once('close', decline);
      signal.addEventListener('abort', decline, { once: true });
    });
  } finally {
    terminal.close();
    if (isSecret) process.stderr.write('\n');
  }
};

/** "yes", or the fingerprint itself, as ssh accepts them. */
function answerOf(line: string): string | boolean {
  const text = line.trim();
  if (/^SHA256:/.test(text)) return text;
  return /^y(es)?$/i.test(text);
}
