/** Puts new values into a JSON text, in the text's own indentation. Every other byte stays unchanged. */
import { edited, type JsonNode, member, parseJson } from './json-tree.js';
import { sorted } from './nbformat-values.js';

/** The value at `path`; undefined when there is none. */
export function valueAt(text: string, path: readonly string[]): unknown {
  const json = parseJson(text);
  let node: JsonNode | undefined = json.root;
  for (const key of path) node = member(node, key)?.value;
  return node === undefined ? undefined : JSON.parse(json.text.slice(node.start, node.end));
}

/** Replaces the value at `path`, or adds it at the sorted position of its key, with the required objects around it. */
export function withValue(original: string, path: readonly string[], value: unknown): string {
  const { text, root } = parseJson(original);
  const writer = new JsonWriter(text, root);
  const put = (node: JsonNode | undefined, depth: number): string => {
    const key = path[depth];
    if (key === undefined) return writer.written(value, depth);
    return writer.object(node, new Map([[key, put(member(node, key)?.value, depth + 1)]]), depth);
  };
  return edited(text, [{ start: root.start, end: root.end, text: put(root, 0) }]);
}

/** Rewrites parts of a text, and copies all others unchanged. */
export class JsonWriter {
  /** Indentation of one level; null if everything is on one line. */
  readonly #unit: string | null;
  readonly #newline: string;

  /** Derives the indentation from the first key of the root. */
  constructor(
    private readonly text: string,
    root: JsonNode
  ) {
    const first = root.kind === 'object' ? root.members[0] : undefined;
    const before = first === undefined ? '' : text.slice(root.start + 1, first.keyStart);
    const [, newline, unit] = /^[ \t]*(\r?\n)([ \t]*)$/.exec(before) ?? [];
    this.#unit = unit ?? null;
    this.#newline = newline ?? '\n';
  }

  source(node: JsonNode): string {
    return this.text.slice(node.start, node.end);
  }

  /** @param depth of the value: 1 for the values of the root's keys */
  written(value: unknown, depth: number): string {
    const plain = sorted(value);
    if (this.#unit === null) return JSON.stringify(plain);
    return JSON.stringify(plain, null, this.#unit).split('\n').join(this.#gap(depth));
  }

  /** The object with these values, given as texts; null removes one. A value of another type is replaced by an object. */
  object(node: JsonNode | undefined, values: ReadonlyMap<string, string | null>, depth: number): string {
    const members = node?.kind === 'object' ? node.members : [];
    const edits = [...values].flatMap(([key, text]) => {
      const at = member(node, key)?.value;
      if (at === undefined || text === null || node === undefined) return [];
      return { start: at.start - node.start, end: at.end - node.start, text };
    });
    if (node !== undefined && edits.length === values.size) return edited(this.source(node), edits);
    const entries = members.map(({ key, value }) => [key, values.get(key) ?? this.source(value)] as const);
    const remaining = entries.filter(([key]) => values.get(key) !== null);
    for (const [key, text] of values) {
      if (text === null || members.some(each => each.key === key)) continue;
      const after = remaining.findIndex(([other]) => other > key);
      remaining.splice(after < 0 ? remaining.length : after, 0, [key, text]);
    }
    return this.#enclosed(
      '{}',
      remaining.map(([key, text]) => `${JSON.stringify(key)}: ${text}`),
      depth
    );
  }

  array(texts: readonly string[], depth: number): string {
    return this.#enclosed('[]', texts, depth);
  }

  #enclosed(brackets: string, parts: readonly string[], depth: number): string {
    const [open = '', close = ''] = brackets;
    if (parts.length === 0) return brackets;
    if (this.#unit === null) return open + parts.join(', ') + close;
    return `${open}${this.#gap(depth + 1)}${parts.join(`,${this.#gap(depth + 1)}`)}${this.#gap(depth)}${close}`;
  }

  #gap(depth: number): string {
    return `${this.#newline}${(this.#unit ?? '').repeat(depth)}`;
  }
}
