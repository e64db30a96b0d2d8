/** The browser's storage for pages of this address; null where its settings forbid it. */
export function pageStorage(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
