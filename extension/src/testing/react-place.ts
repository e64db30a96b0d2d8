/** Where a spec renders: an element of the page with a React root in it, new for each test and removed after it. */
import { act, type ReactNode } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, beforeEach, vi } from 'vitest';

interface IReactPlace {
  readonly host: HTMLElement;
  show(view: ReactNode): void;
}

/** Called where a spec describes its tests. */
export function reactPlace(): IReactPlace {
  let host: HTMLElement;
  let root: Root;
  beforeEach(() => {
    vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true);
    host = document.body.appendChild(document.createElement('div'));
    root = createRoot(host);
  });
  afterEach(() => {
    act(() => root.unmount());
    host.remove();
    vi.unstubAllGlobals();
  });
  return {
    get host() {
      return host;
    },
    show: view => act(() => root.render(view))
  };
}
