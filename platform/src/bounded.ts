/** Maps and sets with a bound: the oldest entries are dropped. */

/** Removes the oldest entries until there are at most `most`. */
export function dropOldest<K>(
  entries: { readonly size: number; keys(): Iterable<K>; delete(key: K): boolean },
  most: number
): void {
  for (const oldest of entries.keys()) {
    if (entries.size <= most) return;
    entries.delete(oldest);
  }
}

/** Sets an entry as the newest one. */
export function setNewest<K, V>(map: Map<K, V>, key: K, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  dropOldest(map, most);
}
