/** What the browser remembers between pages of this address; null where its settings forbid that. */
export function pageStorage(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
