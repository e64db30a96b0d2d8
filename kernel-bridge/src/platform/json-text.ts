/** JSON that may be damaged, or of another program. */

export type JsonObject = Record<string, unknown>;

/** The value itself where it is an object; an empty one for anything else. */
export function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** The value of a JSON text; undefined where it is not JSON, or absent. */
export function jsonIn(text: string | Buffer | null | undefined): unknown {
  try {
    return text == null ? undefined : JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}
