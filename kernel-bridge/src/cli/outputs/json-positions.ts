/**
 * Where the values of a JSON text stand in it, so that a few can be replaced and every other byte stays as it was: the order
 * of keys, the way numbers and letters are written, the line ends.
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

/** Throws a SyntaxError for what is not JSON, as `JSON.parse` does. Deep nesting is refused rather than followed. */
export function parsePositions(text: string): JsonNode {
  // JSON.parse knows all of the grammar; what follows may rely on it.
  JSON.parse(text);
  const scanner = new Scanner(text);
  return scanner.value(0);
}

export function member(node: JsonNode | undefined, key: string): Member | undefined {
  // The last one of the same name counts, as for JSON.parse.
  return node?.kind === 'object' ? node.members.findLast(each => each.key === key) : undefined;
}

export function items(node: JsonNode | undefined): readonly JsonNode[] {
  return node?.kind === 'array' ? node.items : [];
}

const MAX_DEPTH = 500;
const SCALAR_END = /[\s,\]}]|$/g;

class Scanner {
  #at = 0;

  constructor(private readonly text: string) {}

  value(depth: number): JsonNode {
    if (depth > MAX_DEPTH) throw new SyntaxError('nested too deeply');
    this.#space();
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
        SCALAR_END.lastIndex = start;
        this.#at = SCALAR_END.exec(this.text)?.index ?? this.text.length;
    }
    return { kind: 'scalar', start, end: this.#at };
  }

  #members(depth: number): Member[] {
    const members: Member[] = [];
    this.#at++;
    while (!this.#closes('}')) {
      const keyStart = this.#at;
      this.#string();
      const key = JSON.parse(this.text.slice(keyStart, this.#at)) as string;
      this.#space();
      this.#at++; // the colon
      members.push({ key, keyStart, value: this.value(depth + 1) });
      this.#comma();
    }
    return members;
  }

  #items(depth: number): JsonNode[] {
    const found: JsonNode[] = [];
    this.#at++;
    while (!this.#closes(']')) {
      found.push(this.value(depth + 1));
      this.#comma();
    }
    return found;
  }

  #closes(bracket: string): boolean {
    this.#space();
    if (this.text[this.#at] !== bracket) return false;
    this.#at++;
    return true;
  }

  #comma(): void {
    this.#space();
    if (this.text[this.#at] === ',') this.#at++;
  }

  #string(): void {
    let at = this.#at + 1;
    while (this.text[at] !== '"') at += this.text[at] === '\\' ? 2 : 1;
    this.#at = at + 1;
  }

  #space(): void {
    while (' \t\r\n'.includes(this.text[this.#at] ?? 'x')) this.#at++;
  }
}
