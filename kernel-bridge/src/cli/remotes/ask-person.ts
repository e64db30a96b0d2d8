/** Asks the person at the terminal what ssh asks. What is typed as a secret is not shown. */
import { forTerminal } from '../../platform/plain-text.js';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import type { RemotePrompt } from '@tpulab/protocol';

/** null: there is nobody at this terminal. */
export type AskPerson = (prompt: RemotePrompt, signal: AbortSignal) => Promise<string | boolean | null>;

export const askOnTerminal: AskPerson = async (prompt, signal) => {
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

/** "yes", or the fingerprint itself, as ssh takes them. */
function answerOf(line: string): string | boolean {
  const text = line.trim();
  if (/^SHA256:/.test(text)) return text;
  return /^y(es)?$/i.test(text);
}
