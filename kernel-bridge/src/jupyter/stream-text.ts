/**
 * The text of one stream output, as JupyterLab shows it: a carriage return goes back to the start of the line and what
 * follows overwrites, a backspace takes a character away, a line feed ends the line for good.
 *
 * Only the last line can still change, so that the lines before it can be bounded: the first and the last of them stay, and
 * what is left out between them is counted.
 */

const CONTROL = /[\n\b\r]/g;

export class StreamText {
  readonly #half: number;
  #head = '';
  /** Ended lines after the head, newest last; more than one line may be in a piece. */
  #tail: string[] = [];
  #tailChars = 0;
  #line = '';
  #column = 0;
  #cutBytes = 0;

  /** `limit`: how many characters of it are kept, about. */
  constructor(limit: number) {
    this.#half = Math.max(Math.floor(limit / 2), 1);
  }

  write(text: string): void {
    let at = 0;
    for (const match of text.matchAll(CONTROL)) {
      this.#put(text.slice(at, match.index));
      at = match.index + 1;
      if (match[0] === '\n') this.#endLine();
      else if (match[0] === '\r') this.#column = 0;
      else this.#backspace();
    }
    this.#put(text.slice(at));
  }

  get cutBytes(): number {
    return this.#cutBytes;
  }

  /** Characters that are held. */
  get size(): number {
    return this.#head.length + this.#tailChars + this.#line.length;
  }

  /** `notice` stands where something was left out. */
  toString(notice: (cutBytes: number) => string): string {
    return this.#ended(notice) + this.#line;
  }

  /** Where in the text the next character goes. */
  cursor(notice: (cutBytes: number) => string): number {
    return this.#ended(notice).length + this.#column;
  }

  #ended(notice: (cutBytes: number) => string): string {
    return this.#head + (this.#cutBytes === 0 ? '' : notice(this.#cutBytes)) + this.#tail.join('');
  }

  #put(text: string): void {
    if (text === '') return;
    const end = this.#column + text.length;
    this.#line =
      this.#column === this.#line.length
        ? this.#line + text
        : this.#line.slice(0, this.#column) + text + this.#line.slice(end);
    this.#column = end;
    // A line without an end: its beginning can no longer be reached by a carriage return.
    if (this.#column > 2 * this.#half) {
      const cut = boundary(this.#line, this.#column - this.#half);
      this.#keep(this.#line.slice(0, cut));
      this.#line = this.#line.slice(cut);
      this.#column -= cut;
    }
  }

  /** As JupyterLab has it: within a line, the character under the cursor goes too. */
  #backspace(): void {
    if (this.#column === 0) return;
    this.#line = this.#line.slice(0, this.#column - 1) + this.#line.slice(this.#column + 1);
    this.#column--;
  }

  #endLine(): void {
    this.#keep(`${this.#line}\n`);
    this.#line = '';
    this.#column = 0;
  }

  #keep(piece: string): void {
    let rest = piece;
    if (this.#tail.length === 0 && this.#cutBytes === 0) {
      const room = this.#half - this.#head.length;
      if (rest.length <= room) {
        this.#head += rest;
        return;
      }
      const cut = boundary(rest, room);
      this.#head += rest.slice(0, cut);
      rest = rest.slice(cut);
    }
    // Few large pieces rather than a string for each line.
    const last = this.#tail.pop() ?? '';
    if (last.length + rest.length <= this.#half / 8) this.#tail.push(last + rest);
    else this.#tail.push(...(last === '' ? [rest] : [last, rest]));
    this.#tailChars += rest.length;
    while (this.#tailChars > this.#half) this.#dropOldest(this.#tailChars - this.#half);
  }

  #dropOldest(excess: number): void {
    const oldest = this.#tail[0] ?? '';
    const dropped = Math.min(boundary(oldest, excess), oldest.length);
    this.#cutBytes += Buffer.byteLength(oldest.slice(0, dropped));
    this.#tailChars -= dropped;
    if (dropped >= oldest.length) this.#tail.shift();
    else this.#tail[0] = oldest.slice(dropped);
  }
}

/** Not between the halves of a character outside the basic plane; then after it. */
function boundary(text: string, at: number): number {
  const code = at > 0 && at < text.length ? text.charCodeAt(at) : 0;
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
