/**
 * Replaces `postcss`, with which the sanitizer parses `style` attributes before it drops every property that is not allowed.
 * An attribute is a list of declarations and nothing else; anything more (blocks, comments, escapes, unclosed brackets) is an
 * error, and the sanitizer then drops the whole attribute.
 */
export interface Declaration {
  readonly prop: string;
  readonly value: string;
  readonly important: boolean;
}

export interface Rule {
  readonly selector: string;
  nodes: Declaration[];
}

const TEXT = /^([a-z0-9]+) \{([\s\S]*)\}$/i;
const FORBIDDEN = /[{}\\]|\/\*|\*\//;
const IMPORTANT = /\s*!\s*important\s*$/i;

/** @param css `NAME {DECLARATIONS}`, as the sanitizer writes it */
export function parse(css: string): { nodes: [Rule] } {
  const [, selector = '', text = ''] = TEXT.exec(css) ?? [];
  if (selector === '' || FORBIDDEN.test(text)) throw new Error('The style is not a list of declarations.');
  const nodes = declarations(text).flatMap(declaration => {
    const colon = declaration.indexOf(':');
    const prop = declaration.slice(0, Math.max(0, colon)).trim();
    if (prop === '') throw new Error('A declaration has no property.');
    const given = declaration.slice(colon + 1).trim();
    return [{ prop, value: given.replace(IMPORTANT, ''), important: IMPORTANT.test(given) }];
  });
  return { nodes: [{ selector, nodes }] };
}

/** The parts between semicolons outside of strings and brackets. */
function declarations(text: string): string[] {
  const found: string[] = [];
  const open: string[] = [];
  let from = 0;
  for (let at = 0; at <= text.length; at += 1) {
    const letter = text[at] ?? ';';
    const inside = open.at(-1);
    if (inside === '"' || inside === "'") {
      if (letter === inside) open.pop();
      else if (letter === '\n' || at === text.length) throw new Error('A string does not end.');
    } else if (letter === '"' || letter === "'") {
      open.push(letter);
    } else if (letter === '(' || letter === '[') {
      open.push(letter === '(' ? ')' : ']');
    } else if (letter === ')' || letter === ']') {
      if (open.pop() !== letter) throw new Error('A bracket was not opened.');
    } else if (letter === ';' && (inside === undefined || at === text.length)) {
      if (inside !== undefined) throw new Error('A bracket does not close.');
      const part = text.slice(from, at).trim();
      if (part !== '') found.push(part);
      from = at + 1;
    }
  }
  return found;
}
