/** JSON that may be damaged, or of another program. */

/** The value of a JSON text; undefined where it is not JSON, or absent. */
export function jsonIn(text: string | Buffer | null | undefined): unknown {
  try {
    return text == null ? undefined : JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}
