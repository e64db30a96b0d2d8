/** The page with nothing but a few words and a button. */
import type { JSX, ReactNode } from 'react';
import { Brand } from './brand.js';

export function Plain({ children }: { readonly children: ReactNode }): JSX.Element {
  return (
    <main className="tpl-Plain">
      <Brand />
      {children}
    </main>
  );
}
