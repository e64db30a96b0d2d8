/** Puts one value into a JSON text, in the text's own indentation. Every other byte stays as it was. */
import { type JsonNode, type Member, member, parsePositions } from './json-positions.js';

/** Where the value at `path` stands; undefined when there is none. */
export function valueAt(text: string, path: readonly string[]): unknown {
  let node: JsonNode | undefined = rootOf(text);
  for (const key of path) node = member(node, key)?.value;
  return node === undefined ? undefined : JSON.parse(text.slice(node.start, node.end));
}

/** Replaces the value at `path`, or adds it, with the objects that it needs around it, where its key stands in the order of names. */
export function withValue(text: string, path: readonly string[], value: unknown): string {
  const style = styleOf(text);
  let node = rootOf(text);
  for (const [depth, key] of path.entries()) {
    const next = member(node, key);
    if (node.kind !== 'object' || next === undefined) {
      const rest = path.slice(depth + 1).reduceRight((inner, name) => ({ [name]: inner }), value);
      return inserted(text, node, { key, value: rest, depth: depth + 1 }, style);
    }
    node = next.value;
  }
  return replaced(text, node, written(value, path.length, style));
}

interface Style {
  /** Null where all is on one line. */
  readonly unit: string | null;
  readonly newline: string;
}

interface Addition {
  readonly key: string;
  readonly value: unknown;
  /** Of the key; that of the root's keys is 1. */
  readonly depth: number;
}

function rootOf(text: string): JsonNode {
  return parsePositions(text.startsWith('\ufeff') ? ` ${text.slice(1)}` : text);
}

/** As the first key of the root shows it. */
function styleOf(text: string): Style {
  const root = rootOf(text);
  const first = root.kind === 'object' ? root.members[0] : undefined;
  const before = first === undefined ? '' : text.slice(root.start + 1, first.keyStart);
  const [, newline, unit] = /^[ \t]*(\r?\n)([ \t]*)$/.exec(before) ?? [];
  return { unit: unit ?? null, newline: newline ?? '\n' };
}

function written(value: unknown, depth: number, { unit, newline }: Style): string {
  if (unit === null) return JSON.stringify(value);
  return JSON.stringify(value, null, unit)
    .split('\n')
    .join(`${newline}${unit.repeat(depth)}`);
}

function inserted(text: string, node: JsonNode, { key, value, depth }: Addition, style: Style): string {
  const pair = `${JSON.stringify(key)}: ${written(value, depth, style)}`;
  const gap = style.unit === null ? '' : `${style.newline}${style.unit.repeat(depth)}`;
  const members: readonly Member[] = node.kind === 'object' ? node.members : [];
  const after = members.find(each => each.key > key);
  if (after !== undefined) return splice(text, after.keyStart, after.keyStart, `${pair},${gap || ' '}`);
  const last = members.at(-1);
  if (last !== undefined) return splice(text, last.value.end, last.value.end, `,${gap || ' '}${pair}`);
  const end = style.unit === null ? '' : `${style.newline}${style.unit.repeat(depth - 1)}`;
  return replaced(text, node, `{${gap}${pair}${end}}`);
}

function replaced(text: string, node: JsonNode, by: string): string {
  return splice(text, node.start, node.end, by);
}

function splice(text: string, start: number, end: number, by: string): string {
  return text.slice(0, start) + by + text.slice(end);
}
