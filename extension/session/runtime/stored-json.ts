/** An object in the storage of the browser. What is broken there, or may not be stored, counts as empty. */
export function storedJson(storage: Storage | null, key: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(storage?.getItem(key) ?? '{}');
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function storeJson(storage: Storage | null, key: string, value: object): void {
  try {
    storage?.setItem(key, JSON.stringify(value));
  } catch {
    // Known to this page alone.
  }
}
