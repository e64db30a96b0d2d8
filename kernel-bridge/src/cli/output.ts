/** What a command says: a line for people, or with `--json` one line of JSON; failures as one sentence. */
import { forTerminal, forTerminalAsJson } from '../platform/plain-text.js';
import { redact } from './redaction.js';

export interface OutputOptions {
  readonly json?: true | undefined;
}

export interface Streams {
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
}

export function say(streams: Streams, { json }: OutputOptions, value: object, text: string): void {
  // Much of it may be what a kernel, or a machine far away, has said.
  streams.stdout.write(`${json === true ? forTerminalAsJson(value) : forTerminal(text)}\n`);
}

/** The code of an error of ours, for programs; null for what was not foreseen. */
export function codeOf(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && /^[a-z][a-z_]+$/.test(code) ? code : null;
}

export function complain(streams: Streams, { json }: OutputOptions, error: unknown): void {
  const code = codeOf(error);
  const detail = error instanceof Error ? error.message : String(error);
  const said = redact(code === null ? `Unexpected failure: ${detail}` : detail);
  const message = forTerminal(said);
  if (json === true)
    streams.stdout.write(`${forTerminalAsJson({ error: { code: code ?? 'internal', message } })}\n`);
  streams.stderr.write(`${message}\n`);
}
