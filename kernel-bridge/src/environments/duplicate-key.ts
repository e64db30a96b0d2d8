/** Finds a name that one object of a JSON text has twice. `JSON.parse` does not say so: the last value wins. */

/** A string, with the colon that makes it a name, or the begin or the end of an object. */
const TOKENS = /"(?:[^"\\]|\\.)*"(?:\s*:)?|[{}]/gu;

/**
 * @param text valid JSON
 * @returns the path of the first name that its object has already, such as `/tpu/diskMiB`; null when there is none
 */
export function duplicateKey(text: string): string | null {
  const open: { readonly seen: Set<string>; latest: string }[] = [];
  for (const [token] of text.matchAll(TOKENS)) {
    const inner = open.at(-1);
    if (token === '{') open.push({ seen: new Set(), latest: '' });
    else if (token === '}') open.pop();
    else if (token.endsWith(':') && inner !== undefined) {
      // Read, not compared as written: a name may be written with escapes.
      inner.latest = String(JSON.parse(token.slice(0, -1)));
      if (inner.seen.has(inner.latest)) return `/${open.map(({ latest }) => latest).join('/')}`;
      inner.seen.add(inner.latest);
    }
  }
  return null;
}
