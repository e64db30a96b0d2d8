/**
 * The outputs of one cell, or of one Output widget, as a notebook would show them: adjacent texts of one stream are joined,
 * `clear_output` empties the area, and a display is replaced in all its places. Memory is bounded: of a large amount of
 * output the beginning and the end stay, with a note in place of the omitted part.
 */
import { type NotebookOutput, type OutputEntry, sizeText, StreamText } from '@tpulab/protocol';

interface OutputOrigin {
  readonly seq: number;
  readonly displayId?: string | null;
  readonly buffers?: number;
}

type Content =
  | { readonly kind: 'stream'; readonly name: string; readonly text: StreamText }
  | {
      readonly kind: 'whole';
      readonly output: NotebookOutput;
      readonly bytes: number;
      readonly cutBytes: number;
    };

interface Entry {
  content: Content;
  readonly firstSeq: number;
  lastSeq: number;
  readonly displayId: string | null;
  buffers: number;
}

/** Size of an output in addition to its data, so that a million tiny ones count too. */
const ENTRY_BYTES = 128;

export class OutputArea {
  readonly #half: number;
  #head: Entry[] = [];
  #headBytes = 0;
  #tail: Entry[] = [];
  #tailBytes = 0;
  #cutEntries = 0;
  #cutBytes = 0;
  #clearNext = false;

  /** `maxBytes`: approximately how much of the outputs is kept; Infinity for all. */
  constructor(maxBytes: number) {
    this.#half = maxBytes / 2;
  }

  get clearPending(): boolean {
    return this.#clearNext;
  }

  add(output: NotebookOutput, origin: OutputOrigin): void {
    if (this.#clearNext) this.clear(false);
    const last = this.#last();
    if (output.output_type !== 'stream') this.#push(this.#addWhole(output), origin);
    else if (last?.content.kind === 'stream' && last.content.name === output.name) {
      this.#append(last, last.content.text, output.text, origin.seq);
    } else {
      const text = new StreamText(this.#half, part => Buffer.byteLength(part));
      text.write(output.text);
      this.#push({ kind: 'stream', name: output.name, text }, origin);
    }
  }

  clear(wait: boolean): void {
    this.#clearNext = wait;
    if (wait) return;
    this.#head = [];
    this.#tail = [];
    this.#headBytes = this.#tailBytes = this.#cutEntries = this.#cutBytes = 0;
  }

  /** Gives every output of this display new data; its type remains, a display or a result. */
  update(displayId: string, data: NotebookOutput, origin: OutputOrigin): void {
    if (data.output_type !== 'display_data' && data.output_type !== 'execute_result') return;
    let bytes: number | null = null;
    for (const entries of [this.#head, this.#tail]) {
      for (const entry of entries) {
        const { content } = entry;
        if (entry.displayId !== displayId || content.kind !== 'whole' || origin.seq <= entry.lastSeq)
          continue;
        if (content.output.output_type !== 'display_data' && content.output.output_type !== 'execute_result')
          continue;
        const before = weight(entry);
        const { data: shown, metadata } = data;
        // Computed once: one of many updates may be shown in many places.
        bytes ??= Buffer.byteLength(JSON.stringify({ ...content.output, data: shown, metadata }));
        entry.content = this.#addWhole({ ...content.output, data: shown, metadata }, bytes);
        entry.lastSeq = origin.seq;
        entry.buffers = origin.buffers ?? 0;
        this.#updateSize(entries, weight(entry) - before);
      }
    }
    this.#trim();
  }

  /** The displays that are shown, each with the newest record of its content. */
  displays(): Map<string, number> {
    const found = new Map<string, number>();
    for (const { displayId, lastSeq } of [...this.#head, ...this.#tail]) {
      if (displayId !== null) found.set(displayId, Math.min(found.get(displayId) ?? Infinity, lastSeq));
    }
    return found;
  }

  get bytes(): number {
    return this.#headBytes + this.#tailBytes;
  }

  get cutBytes(): number {
    return [...this.#head, ...this.#tail].reduce((sum, entry) => sum + cutOf(entry), this.#cutBytes);
  }

  entries(): OutputEntry[] {
    const [head, tail] = [this.#head.map(describe), this.#tail.map(describe)];
    if (this.#cutEntries === 0) return [...head, ...tail];
    return [...head, this.#cutNotice(), ...tail];
  }

  #cutNotice(): OutputEntry {
    const seq = this.#head.at(-1)?.lastSeq ?? this.#tail[0]?.firstSeq ?? 0;
    const what = `${this.#cutEntries} ${this.#cutEntries === 1 ? 'output' : 'outputs'}`;
    return {
      output: {
        output_type: 'stream',
        name: 'stderr',
        text: leftOut(`${what}, ${sizeText(this.#cutBytes)},`)
      },
      firstSeq: seq,
      lastSeq: seq,
      displayId: null,
      cursor: null,
      cutBytes: this.#cutBytes,
      buffers: 0
    };
  }

  #last(): Entry | undefined {
    return this.#tail.at(-1) ?? this.#head.at(-1);
  }

  #append(entry: Entry, stream: StreamText, text: string, seq: number): void {
    const before = weight(entry);
    stream.write(text);
    entry.lastSeq = seq;
    this.#updateSize(this.#tail.length > 0 ? this.#tail : this.#head, weight(entry) - before);
    this.#trim();
  }

  #push(content: Content, { seq, displayId = null, buffers = 0 }: OutputOrigin): void {
    const entry: Entry = { content, firstSeq: seq, lastSeq: seq, displayId, buffers };
    const fits = this.#tail.length === 0 && this.#headBytes + weight(entry) <= this.#half;
    const entries = fits || this.#head.length === 0 ? this.#head : this.#tail;
    entries.push(entry);
    this.#updateSize(entries, weight(entry));
    this.#trim();
  }

  #updateSize(entries: Entry[], bytes: number): void {
    if (entries === this.#head) this.#headBytes += bytes;
    else this.#tailBytes += bytes;
  }

  /** The newest output always stays: the next one may belong to it. */
  #trim(): void {
    let drop = 0;
    while (this.#tailBytes > this.#half && drop < this.#tail.length - 1) {
      const entry = this.#tail[drop++];
      if (entry === undefined) break;
      this.#tailBytes -= weight(entry);
      this.#cutEntries++;
      this.#cutBytes += entry.content.kind === 'stream' ? entry.content.text.size : entry.content.bytes;
      this.#cutBytes += cutOf(entry);
    }
    if (drop > 0) this.#tail.splice(0, drop);
  }

  /** An output that is too large on its own is replaced by a description. */
  #addWhole(
    output: NotebookOutput,
    bytes = Buffer.byteLength(JSON.stringify(output))
  ): Content & { kind: 'whole' } {
    if (bytes <= this.#half) return { kind: 'whole', output, bytes, cutBytes: 0 };
    const shown = abridged(output, bytes);
    return {
      kind: 'whole',
      output: shown,
      bytes: Buffer.byteLength(JSON.stringify(shown)),
      cutBytes: bytes
    };
  }
}

function abridged(output: NotebookOutput, bytes: number): NotebookOutput {
  if (output.output_type === 'error') {
    return {
      ...output,
      evalue: output.evalue.slice(0, 500),
      traceback: [leftOut(sizeText(bytes)).trim()]
    };
  }
  if (output.output_type === 'stream') return { ...output, text: leftOut(sizeText(bytes)) };
  const types = Object.keys(output.data).slice(0, 8).join(', ');
  return {
    ...output,
    data: { 'text/plain': leftOut(`${types}, ${sizeText(bytes)},`).trim() },
    metadata: {}
  };
}

/** A note that states how to get the omitted output: the same text fits the API, the command, and a reader of the notebook. */
function leftOut(what: string): string {
  return `\n[tpulab: ${what} left out here; request more with maxBytes, or use "tpulab outputs --max-bytes 0"]\n`;
}

function notice(cutBytes: number): string {
  return leftOut(`${sizeText(cutBytes)} of text`);
}

function weight({ content }: Entry): number {
  return ENTRY_BYTES + (content.kind === 'stream' ? content.text.size : content.bytes);
}

function cutOf({ content }: Entry): number {
  return content.kind === 'stream' ? content.text.cutBytes : content.cutBytes;
}

function describe(entry: Entry): OutputEntry {
  const { content, firstSeq, lastSeq, displayId, buffers } = entry;
  const output: NotebookOutput =
    content.kind === 'stream'
      ? { output_type: 'stream', name: content.name, text: content.text.toString(notice) }
      : content.output;
  const cursor = content.kind === 'stream' ? content.text.cursor(notice) : null;
  return { output, firstSeq, lastSeq, displayId, cursor, cutBytes: cutOf(entry), buffers };
}
