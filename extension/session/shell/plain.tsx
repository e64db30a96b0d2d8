/** A page with only a short text and a button. */
import type { JSX, ReactNode } from 'react';

export function Plain({ children }: { readonly children: ReactNode }): JSX.Element {
  return (
    <main className="tpl-Plain">
      <Brand />
      {children}
    </main>
  );
}

/** The TPULab logo. */
export function Brand(): JSX.Element {
  return (
    <span className="tpl-Brand" aria-hidden="true">
      <svg viewBox="0 0 24 24" width="16" height="16" fill="none" stroke="currentColor" strokeWidth="2">
        <rect x="6" y="6" width="12" height="12" rx="2" />
        <rect x="10" y="10" width="4" height="4" />
        <path d="M9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4" />
      </svg>
    </span>
  );
}
