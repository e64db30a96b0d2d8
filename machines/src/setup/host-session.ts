/** Runs our scripts on one host and turns their failures into typed errors. */
import type { RemoteShell } from '../machine.js';
import { explainHost } from '../ssh/explain.js';
import { EXIT, script as scriptOf } from './host-scripts.js';
import { type RunningStage, SetupError } from './stage-reporter.js';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { sha256Of } from '../ssh/ssh-shell.js';

export interface ScriptEnd {
  readonly code: number;
  /** Value of the last line `KEY<tab>VALUE` of each key. */
  readonly values: ReadonlyMap<string, string>;
  /** The other lines, from the end of the output. */
  readonly lines: readonly string[];
}

interface ScriptOptions {
  readonly timeoutMs: number;
  /** Lines without a key. */
  readonly onText?: (text: string) => void;
  readonly onValue?: (key: string, value: string) => void;
}

export const QUICK_MS = 60_000;
const MAX_LINES = 40;

export class HostSession {
  readonly signal: AbortSignal;
  readonly #log: (line: string) => void;

  /** @param base our folder there, as an absolute path */
  constructor(
    private readonly shell: RemoteShell,
    readonly base: string,
    options: { readonly signal: AbortSignal; readonly onLog: (line: string) => void }
  ) {
    this.signal = options.signal;
    this.#log = options.onLog;
  }

  get host(): string {
    return this.shell.host;
  }

  async run(script: string, args: readonly string[], options: ScriptOptions): Promise<ScriptEnd> {
    const values = new Map<string, string>();
    const lines: string[] = [];
    const { code, stderr } = await this.shell.run(script, [this.base, ...args], {
      signal: this.signal,
      timeoutMs: options.timeoutMs,
      onLine: line => {
        const tab = line.indexOf('\t');
        if (tab > 0 && /^[a-z_]+$/.test(line.slice(0, tab))) {
          const [key, value] = [line.slice(0, tab), line.slice(tab + 1)];
          values.set(key, value);
          if (key === 'log') this.#log(value);
          options.onValue?.(key, value);
          return;
        }
        keep(lines, line);
        // A line of JSON is a result; the other lines are for people.
        if (!line.startsWith('{')) this.#log(line);
        options.onText?.(line);
      }
    });
    for (const line of stderr.split('\n').filter(text => text.trim() !== '')) {
      keep(lines, line);
      this.#log(line);
    }
    this.signal.throwIfAborted();
    if (code === EXIT.busy) {
      throw new SetupError(
        'setup_busy',
        `Another setup has been running on ${this.host} for an hour; end it there, or wait and connect again.`
      );
    }
    const cause = code === 0 ? null : explainHost(this.host, lines.join('\n'));
    if (cause !== null) throw cause;
    return { code, values, lines };
  }

  upload(localPath: string, name: string, onProgress: (bytes: number, total: number) => void): Promise<void> {
    return this.shell.upload(localPath, `${this.base}/${name}`, { signal: this.signal, onProgress });
  }

  log(line: string): void {
    this.#log(line);
  }
}

function keep(lines: string[], line: string): void {
  lines.push(line);
  if (lines.length > MAX_LINES) lines.shift();
}

/** Sends one file, with its progress. */
export async function sendFile(
  session: HostSession,
  local: string,
  name: string,
  stage: RunningStage
): Promise<void> {
  await session.upload(local, name, (bytes, total) => {
    stage.moved(`sending ${path.basename(name)}`, bytes, total);
  });
}

/** Sends the files that are missing or differ there. Their names must be unique. */
export async function sendFiles(
  session: HostSession,
  files: readonly string[],
  folder: string,
  stage: RunningStage
): Promise<void> {
  const there = new Map<string, string>();
  await session.run(scriptOf('list.sh'), [folder], {
    timeoutMs: 10 * QUICK_MS,
    onValue: (key, value) => {
      const space = value.indexOf(' ');
      if (key === 'file') there.set(value.slice(space + 1), value.slice(0, space));
    }
  });
  const sizes = await Promise.all(files.map(async file => (await stat(file)).size));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  let done = 0;
  for (const [at, file] of files.entries()) {
    const name = path.basename(file);
    const before = done;
    if (there.get(name) !== (await sha256Of(file))) {
      await session.upload(file, `${folder}/${name}`, bytes =>
        stage.moved(`sending ${name}`, before + bytes, total)
      );
    }
    done += sizes[at] ?? 0;
  }
}
