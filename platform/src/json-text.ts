/** JSON that may be damaged, or come from another program. */

export type JsonObject = Record<string, unknown>;

/** The value itself if it is an object; otherwise an empty one. */
export function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** The value of a JSON text; undefined if it is invalid JSON, or absent. */
export function jsonIn(text: string | Buffer | null | undefined): unknown {
  try {
    return text == null ? undefined : JSON.parse(text.toString());
  } catch {
    return undefined;
  }
}
