/** The base of this page, the requested notebook, and the code or token from the fragment of its address. */

export interface PageAddress {
  /** Address of the gateway, with a trailing slash. */
  readonly gateway: string;
  /** Path below the root folder; null: none was named. */
  readonly notebook: string | null;
  /** The page of runs is requested instead: `?runs`. */
  readonly runs: boolean;
  /** A token, a key, or the code of a link. Null: the user has to enter it. */
  readonly token: string | null;
}

const TOKEN_KEY = 'tpulab:session-token';

/**
 * A fragment is sent to no server. It is removed from the address immediately, so that no bookmark has it. The browser's history keeps
 * the first address: a code there is worthless once this page has exchanged it for a key.
 */
export function readAddress(page: Window): PageAddress {
  const base = new URL(page.document.baseURI);
  const fragment = new URLSearchParams(page.location.hash.slice(1));
  const given = fragment.get('code') ?? fragment.get('token');
  if (given !== null) page.history.replaceState(null, '', page.location.pathname + page.location.search);
  return {
    gateway: new URL('..', base).href,
    notebook: notebookOf(page.location.pathname, base.pathname),
    runs: new URLSearchParams(page.location.search).has('runs'),
    token: given ?? storedToken(page)
  };
}

export function keepToken(page: Window, token: string): void {
  try {
    page.sessionStorage.setItem(TOKEN_KEY, token);
  } catch {
    // A browser without storage asks again after a reload.
  }
}

export function forgetToken(page: Window): void {
  try {
    page.sessionStorage.removeItem(TOKEN_KEY);
  } catch {
    // Nothing was stored.
  }
}

/** A file on the user's own computer, opened through the browser: `browser:ID/NAME`. */
export const isBrowserFile = (notebook: string): boolean => notebook.startsWith('browser:');

export function addressOf(page: Window, notebook: string): string {
  const base = new URL(page.document.baseURI);
  return new URL(notebook.split('/').map(encodeURIComponent).join('/'), base).pathname;
}

export function runsAddress(page: Window): string {
  return new URL('?runs', page.document.baseURI).href;
}

function storedToken(page: Window): string | null {
  try {
    return page.sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

/** The address with the token in its fragment, only where the next page finds no stored one: a browser's history keeps it. */
export function withToken(page: Window, address: string, token: string): string {
  return storedToken(page) === token ? address : `${address}#${new URLSearchParams({ token })}`;
}

function notebookOf(path: string, base: string): string | null {
  if (!path.startsWith(base) || path.length === base.length) return null;
  try {
    return decodeURIComponent(path.slice(base.length));
  } catch {
    return null;
  }
}
