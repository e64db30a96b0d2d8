/**
 * The text of one stream output: after a carriage return, the following text overwrites the line from its start; a
 * backspace removes a character. As in JupyterLab, but by characters instead of surrogates, because a lone surrogate cannot
 * be saved. Unlike in JupyterLab, "erase in line" and "cursor up" have their effect: the progress displays of rich and
 * nested bars of tqdm need them.
 *
 * Only the newest lines can still change, so that earlier lines can be bounded: the first and the last of them stay, and
 * the omitted part between them is counted.
 */

/** Includes an incomplete sequence at the end of a text: the next text continues it. */
const CONTROL = /[\n\b\r]|\x1b\[(\d*)([AK])|\x1b(?:\[\d{0,3})?$/g;
/** How far up the cursor can move. */
export const LINES_ABOVE = 64;

export class StreamText {
  readonly #half: number;
  #head = '';
  /** Finished lines after the head, newest last; a piece may contain more than one line. */
  #tail: string[] = [];
  #tailChars = 0;
  /** The finished lines that the cursor can still reach, newest last. */
  #above: string[] = [];
  #aboveChars = 0;
  /** The lines below the cursor's line, nearest first. */
  #below: string[] = [];
  #belowChars = 0;
  /** The beginning of an incomplete control sequence. */
  #begun = '';
  /** The current line, before and after the cursor. */
  readonly #before = new Pieces();
  readonly #behind = new Pieces(true);
  #cutBytes = 0;

  /** @param limit approximate limit of stored characters @param bytesOf counts the bytes of the omitted text */
  constructor(
    limit: number,
    private readonly bytesOf: (text: string) => number = ({ length }) => length
  ) {
    this.#half = Math.max(Math.floor(limit / 2), 1);
  }

  write(text: string): void {
    let at = 0;
    const whole = this.#begun + text;
    this.#begun = '';
    for (const { index, 0: control, 1: number = '', 2: command } of whole.matchAll(CONTROL)) {
      this.#put(whole.slice(at, index));
      at = index + control.length;
      if (control === '\n') this.#endLine();
      else if (control === '\r') this.#before.moveTo(this.#behind);
      else if (control === '\b') this.#backspace();
      else if (command === 'A') this.#up(Number(number) || 1);
      else if (command === 'K') this.#erase(Number(number));
      else this.#begun = control;
    }
    this.#put(whole.slice(at));
  }

  get cutBytes(): number {
    return this.#cutBytes;
  }

  /** Number of stored characters. */
  get size(): number {
    const line = this.#before.length + this.#behind.length + this.#begun.length;
    return this.#head.length + this.#tailChars + this.#aboveChars + this.#belowChars + line;
  }

  /** `notice` replaces the omitted part. */
  toString(notice: (cutBytes: number) => string): string {
    const line = this.#before.text() + this.#behind.text();
    return this.#ended(notice) + [line, ...this.#below].join('\n') + this.#begun;
  }

  /** Position of the next character in the text. */
  cursor(notice: (cutBytes: number) => string): number {
    return this.#ended(notice).length + this.#before.length;
  }

  #ended(notice: (cutBytes: number) => string): string {
    return (
      this.#head +
      (this.#cutBytes === 0 ? '' : notice(this.#cutBytes)) +
      this.#tail.join('') +
      this.#above.join('')
    );
  }

  #put(text: string): void {
    if (text === '') return;
    this.#before.push(text);
    if (this.#behind.length > 0) this.#behind.drop(characters(text));
    // A line without an end: a carriage return can then no longer reach its beginning.
    if (this.#before.length > 2 * this.#half) {
      const line = this.#before.take();
      for (const ended of this.#above.splice(0)) this.#keep(ended);
      this.#aboveChars = 0;
      const cut = boundary(line, line.length - this.#half);
      this.#keep(line.slice(0, cut));
      this.#before.push(line.slice(cut));
    }
  }

  /** As in JupyterLab: within a line, the character under the cursor is removed too. */
  #backspace(): void {
    if (this.#before.length === 0) return;
    this.#before.drop(1);
    this.#behind.drop(1);
  }

  #endLine(): void {
    const line = `${this.#before.take()}${this.#behind.take()}\n`;
    this.#above.push(line);
    this.#aboveChars += line.length;
    while (this.#above.length > LINES_ABOVE || this.#aboveChars > this.#half / 4) {
      const oldest = this.#above.shift() ?? '';
      this.#aboveChars -= oldest.length;
      this.#keep(oldest);
    }
    const next = this.#below.shift();
    if (next === undefined) return;
    this.#belowChars -= next.length + 1;
    this.#behind.push(next);
  }

  /** The column stays: a shorter line is filled with spaces. */
  #up(lines: number): void {
    for (let left = lines; left > 0; left--) {
      const above = this.#above.pop();
      if (above === undefined) return;
      this.#aboveChars -= above.length;
      const column = this.#before.length;
      const line = this.#before.take() + this.#behind.take();
      this.#below.unshift(line);
      this.#belowChars += line.length + 1;
      const at = boundary(above, Math.min(column, above.length - 1));
      this.#before.push(above.slice(0, at).padEnd(column));
      this.#behind.push(above.slice(at, -1));
    }
  }

  /** @param part 0: after the cursor, 1: before it, 2: the whole line. The cursor stays. */
  #erase(part: number): void {
    if (part !== 1) this.#behind.take();
    if (part === 1 || part === 2) this.#before.push(' '.repeat(characters(this.#before.take())));
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
    // Stored as a few large pieces rather than one string per line.
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

/** Pieces are joined before there are so many that they cost more than their text. */
const MAX_PIECES = 4_096;

/**
 * A part of a line, as pieces with the one at the cursor last: `#before` in the order of the text, `#behind` reversed. The
 * cost per character does not depend on the length of the line, which a kernel may erase character by character.
 */
class Pieces {
  #pieces: string[] = [];
  #length = 0;

  /** @param isReversed the first piece of the text is the last in the list */
  constructor(private readonly isReversed = false) {}

  get length(): number {
    return this.#length;
  }

  push(text: string): void {
    if (text === '') return;
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#pieces.length > MAX_PIECES) this.#pieces = [this.text()];
  }

  /** Removes characters at the cursor. */
  drop(count: number): void {
    let left = count;
    for (
      let last = this.#pieces.pop();
      last !== undefined;
      last = left > 0 ? this.#pieces.pop() : undefined
    ) {
      let units = 0;
      for (; left > 0 && units < last.length; left--) {
        const code = this.isReversed ? last.codePointAt(units) : codePointBefore(last, last.length - units);
        units += (code ?? 0) > 0xffff ? 2 : 1;
      }
      this.#length -= units;
      const rest = this.isReversed ? last.slice(units) : last.slice(0, last.length - units);
      if (rest !== '') {
        this.#pieces.push(rest);
        return;
      }
    }
  }

  /** Moves the cursor to the other end: the whole text is then after it. */
  moveTo(behind: Pieces): void {
    for (let piece = this.#pieces.pop(); piece !== undefined; piece = this.#pieces.pop()) behind.push(piece);
    this.#length = 0;
  }

  text(): string {
    return this.isReversed ? this.#pieces.toReversed().join('') : this.#pieces.join('');
  }

  /** Removes the text and returns it. */
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

/** Never between the surrogates of a pair, but after them. */
function boundary(text: string, at: number): number {
  const code = at > 0 && at < text.length ? text.charCodeAt(at) : 0;
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}
