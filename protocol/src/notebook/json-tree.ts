/**
 * Positions of the values in a JSON text, so that a few can be replaced and every other byte stays unchanged: the order of
 * keys, the notation of numbers and characters, the line ends. Python's `NaN`, `Infinity` and `-Infinity` are read as null.
 */

export type JsonNode =
  | {
      readonly kind: 'object';
      readonly start: number;
      readonly end: number;
      readonly members: readonly Member[];
    }
  | {
      readonly kind: 'array';
      readonly start: number;
      readonly end: number;
      readonly items: readonly JsonNode[];
    }
  | { readonly kind: 'scalar'; readonly start: number; readonly end: number };

export interface Member {
  readonly key: string;
  readonly keyStart: number;
  readonly value: JsonNode;
}

export interface JsonText {
  /** The text without a byte order mark and lone surrogates, and with null for numbers that JSON does not have. */
  readonly text: string;
  readonly root: JsonNode;
}

/** Escapes: a surrogate pair, a lone surrogate, any other. */
const ESCAPE =
  /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)/gs;

/** Throws a SyntaxError with line and column for invalid JSON. Deep nesting is refused. */
export function parseJson(original: string): JsonText {
  const plain = original.startsWith('\ufeff') ? original.slice(1) : original;
  // Neither nbformat nor a server could write such a lone surrogate again.
  const text = /\\ud/i.test(plain)
    ? plain.replace(ESCAPE, (all, half?: string) => (half === undefined ? all : '\ufffd'))
    : plain;
  const scanner = new Scanner(text);
  const root = scanner.whole();
  if (scanner.notNumbers.length === 0) return { text, root };
  const nulls = scanner.notNumbers.map(({ start, end }) => ({ start, end, text: 'null' }));
  return parseJson(edited(text, nulls));
}

export function member(node: JsonNode | undefined, key: string): Member | undefined {
  // The last member of the same name counts, as for JSON.parse.
  return node?.kind === 'object' ? node.members.findLast(each => each.key === key) : undefined;
}

export function items(node: JsonNode | undefined): readonly JsonNode[] {
  return node?.kind === 'array' ? node.items : [];
}

export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The text with these edits, which do not overlap. */
export function edited(text: string, edits: readonly Edit[]): string {
  const parts: string[] = [];
  let at = 0;
  for (const edit of [...edits].sort((a, b) => a.start - b.start)) {
    parts.push(text.slice(at, edit.start), edit.text);
    at = edit.end;
  }
  return parts.join('') + text.slice(at);
}

const MAX_DEPTH = 500;
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y;
const NOT_NUMBER = /(?:NaN|-?Infinity)(?![\w.+-])/y;
const SPACE = /[ \t\r\n]*/y;

class Scanner {
  readonly notNumbers: { start: number; end: number }[] = [];
  #at = 0;

  constructor(private readonly text: string) {}

  whole(): JsonNode {
    const root = this.#value(0);
    this.#match(SPACE);
    if (this.#at < this.text.length) this.#fail('text after the end');
    return root;
  }

  #value(depth: number): JsonNode {
    if (depth > MAX_DEPTH) this.#fail('nested too deeply');
    this.#match(SPACE);
    const start = this.#at;
    switch (this.text[start]) {
      case '{':
        return { kind: 'object', start, members: this.#members(depth), end: this.#at };
      case '[':
        return { kind: 'array', start, items: this.#items(depth), end: this.#at };
      case '"':
        this.#string();
        break;
      default:
        if (this.#match(NOT_NUMBER)) this.notNumbers.push({ start, end: this.#at });
        else if (!this.#match(SCALAR)) this.#fail('no value');
    }
    return { kind: 'scalar', start, end: this.#at };
  }

  #members(depth: number): Member[] {
    const members: Member[] = [];
    for (this.#at++; !this.#closes('}', members.length);) {
      const keyStart = this.#at;
      if (this.text[keyStart] !== '"') this.#fail('no key in quotes');
      this.#string();
      const key = JSON.parse(this.text.slice(keyStart, this.#at)) as string;
      this.#match(SPACE);
      if (this.text[this.#at] !== ':') this.#fail('no colon after a key');
      this.#at++;
      members.push({ key, keyStart, value: this.#value(depth + 1) });
    }
    return members;
  }

  #items(depth: number): JsonNode[] {
    const found: JsonNode[] = [];
    for (this.#at++; !this.#closes(']', found.length);) found.push(this.#value(depth + 1));
    return found;
  }

  /** Whether the bracket closes; otherwise also consumes the comma before the next member. */
  #closes(bracket: string, before: number): boolean {
    this.#match(SPACE);
    if (this.text[this.#at] === bracket) {
      this.#at++;
      return true;
    }
    if (before === 0) return false;
    if (this.text[this.#at] !== ',') this.#fail(`no comma or ${bracket}`);
    this.#at++;
    this.#match(SPACE);
    return false;
  }

  #string(): void {
    // A text of megabytes is too long for a regular expression that matches it as a whole.
    const start = this.#at;
    let end = start;
    do end = this.text.indexOf('"', end + 1);
    while (end > 0 && isEscaped(this.text, end));
    if (end < 0) this.#fail('a text without an end');
    if (end - start < 10_000) {
      if (!this.#match(STRING)) this.#fail('a text with a line end or an unknown escape');
      return;
    }
    try {
      JSON.parse(this.text.slice(start, end + 1));
    } catch {
      this.#fail('a text with a line end or an unknown escape');
    }
    this.#at = end + 1;
  }

  #match(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    const found = pattern.test(this.text);
    if (found) this.#at = pattern.lastIndex;
    return found;
  }

  #fail(what: string): never {
    const before = this.text.slice(0, this.#at).split('\n');
    throw new SyntaxError(`line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}: ${what}`);
  }
}

function isEscaped(text: string, quote: number): boolean {
  let slashes = 0;
  while (text[quote - 1 - slashes] === '\\') slashes++;
  return slashes % 2 === 1;
}
