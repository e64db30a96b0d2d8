/** What happened to one remote, for people: the last lines in memory, and a file. Secrets do not get in. */
import { appendFileSync, mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import type { RemoteLogLine } from '@tpulab/protocol';
import { plainText } from '../platform/plain-text.js';

const KEPT_LINES = 1_000;
const LINE_CHARACTERS = 2_000;
/** A larger file is put aside as NAME.log.1 and replaces an older one. */
const FILE_BYTES = 4 * 1024 * 1024;

export class RemoteLog {
  readonly #file: string;
  readonly #lines: RemoteLogLine[] = [];
  readonly #secrets = new Set<string>();

  constructor(folder: string, name: string) {
    this.#file = path.join(folder, `${name}.log`);
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#lines.push(...earlier(this.#file));
    } catch {
      // A log that cannot be kept must not keep a remote from working.
    }
  }

  /** From now on these texts are left out of every line, wherever they come from. */
  hide(secret: string): void {
    if (secret.length >= 4) this.#secrets.add(secret);
  }

  add(text: string): void {
    const line: RemoteLogLine = { at: Date.now(), text: this.#clean(text) };
    this.#lines.push(line);
    if (this.#lines.length > KEPT_LINES) this.#lines.splice(0, this.#lines.length - KEPT_LINES);
    try {
      appendFileSync(this.#file, `${new Date(line.at).toISOString()} ${line.text}\n`, { mode: 0o600 });
      if (statSync(this.#file).size > FILE_BYTES) renameSync(this.#file, `${this.#file}.1`);
    } catch {
      // As above; the lines in memory are still there.
    }
  }

  lines(): readonly RemoteLogLine[] {
    return this.#lines;
  }

  #clean(text: string): string {
    let clean = plainText(text, LINE_CHARACTERS);
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, '[secret]');
    return clean
      .replace(/([?&]token=)[^&\s"']+/gi, '$1[token]')
      .replace(/\b(token|bearer)(["']?\s*[:=]?\s*["']?)[\x21-\x7e]{16,}/gi, '$1$2[token]');
  }
}

function earlier(file: string): RemoteLogLine[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return [];
  }
  return text
    .split('\n')
    .slice(-KEPT_LINES)
    .flatMap(line => {
      const at = Date.parse(line.slice(0, 24));
      return Number.isNaN(at) ? [] : [{ at, text: line.slice(25) }];
    });
}
