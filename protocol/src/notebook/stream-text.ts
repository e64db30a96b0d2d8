/**
 * The text of one stream output: a carriage return goes back to the start of the line and what follows overwrites, a backspace takes
 * a character away, a line feed ends the line for good. As JupyterLab has it, but by characters instead of halves of them, because
 * half a character can be saved by nobody.
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
  /** The last line, before and behind the place where the next character goes. */
  readonly #before = new Pieces();
  readonly #behind = new Pieces();
  #cutBytes = 0;

  /**
   * @param limit how many characters of it are kept, about
   * @param bytesOf for the count of what is left out
   */
  constructor(
    limit: number,
    private readonly bytesOf: (text: string) => number = ({ length }) => length
  ) {
    this.#half = Math.max(Math.floor(limit / 2), 1);
  }

  write(text: string): void {
    let at = 0;
    for (const match of text.matchAll(CONTROL)) {
      this.#put(text.slice(at, match.index));
      at = match.index + 1;
      if (match[0] === '\n') this.#endLine();
      else if (match[0] === '\r') this.#before.moveTo(this.#behind);
      else this.#backspace();
    }
    this.#put(text.slice(at));
  }

  get cutBytes(): number {
    return this.#cutBytes;
  }

  /** Characters that are held. */
  get size(): number {
    return this.#head.length + this.#tailChars + this.#before.length + this.#behind.length;
  }

  /** `notice` stands where something was left out. */
  toString(notice: (cutBytes: number) => string): string {
    return this.#ended(notice) + this.#before.text() + this.#behind.text();
  }

  /** Where in the text the next character goes. */
  cursor(notice: (cutBytes: number) => string): number {
    return this.#ended(notice).length + this.#before.length;
  }

  #ended(notice: (cutBytes: number) => string): string {
    return this.#head + (this.#cutBytes === 0 ? '' : notice(this.#cutBytes)) + this.#tail.join('');
  }

  #put(text: string): void {
    if (text === '') return;
    this.#before.push(text);
    if (this.#behind.length > 0) this.#behind.drop(characters(text));
    // A line without an end: its beginning can no longer be reached by a carriage return.
    if (this.#before.length > 2 * this.#half) {
      const line = this.#before.take();
      const cut = boundary(line, line.length - this.#half);
      this.#keep(line.slice(0, cut));
      this.#before.push(line.slice(cut));
    }
  }

  /** As JupyterLab has it: within a line, the character under the cursor goes too. */
  #backspace(): void {
    if (this.#before.length === 0) return;
    this.#before.drop(1);
    this.#behind.drop(1);
  }

  #endLine(): void {
    this.#keep(`${this.#before.take()}${this.#behind.take()}\n`);
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
    this.#cutBytes += this.bytesOf(oldest.slice(0, dropped));
    this.#tailChars -= dropped;
    if (dropped >= oldest.length) this.#tail.shift();
    else this.#tail[0] = oldest.slice(dropped);
  }
}

/** Joined before they become so many that they cost more than their text. */
const MAX_PIECES = 4_096;

/**
 * A part of a line, as pieces with the end at the cursor last: `#before` in the order of the text, `#behind` in the reverse order. What a
 * character costs does not depend on the length of the line, which a kernel may rub out character by character.
 */
class Pieces {
  #pieces: string[] = [];
  #length = 0;
  /** The first piece of the text is the last in the list. */
  #isReversed = false;

  get length(): number {
    return this.#length;
  }

  push(text: string): void {
    if (text === '') return;
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#pieces.length > MAX_PIECES) this.#pieces = [this.text()];
  }

  /** Takes characters away at the cursor. */
  drop(count: number): void {
    let left = count;
    for (
      let last = this.#pieces.pop();
      last !== undefined;
      last = left > 0 ? this.#pieces.pop() : undefined
    ) {
      let units = 0;
      for (; left > 0 && units < last.length; left--) {
        const code = this.#isReversed ? last.codePointAt(units) : codePointBefore(last, last.length - units);
        units += (code ?? 0) > 0xffff ? 2 : 1;
      }
      this.#length -= units;
      const rest = this.#isReversed ? last.slice(units) : last.slice(0, last.length - units);
      if (rest !== '') {
        this.#pieces.push(rest);
        return;
      }
    }
  }

  /** The cursor goes to the other end: all of it lies behind then. */
  moveTo(behind: Pieces): void {
    behind.#isReversed = true;
    for (let piece = this.#pieces.pop(); piece !== undefined; piece = this.#pieces.pop()) behind.push(piece);
    this.#length = 0;
  }

  text(): string {
    return this.#isReversed ? this.#pieces.toReversed().join('') : this.#pieces.join('');
  }

  /** The text, which is no longer here then. */
  take(): string {
    const text = this.text();
    this.#pieces = [];
    this.#length = 0;
    return text;
  }
}

function characters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at++) if ((text.codePointAt(at) ?? 0) > 0xffff) count--;
  return count;
}

function codePointBefore(text: string, at: number): number | undefined {
  const code = at > 1 ? text.codePointAt(at - 2) : undefined;
  return code !== undefined && code > 0xffff ? code : text.codePointAt(at - 1);
}

/** Not between the halves of a character outside the basic plane; then after it. */
function boundary(text: string, at: number): number {
  const code = at > 0 && at < text.length ? text.charCodeAt(at) : 0;
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
