/** Views of objects with signals. */
import type { ISignal } from '@lumino/signaling';
import type { IDisposable } from '@lumino/disposable';
import { useEffect, useLayoutEffect, useReducer, useState } from 'react';

/** Redraws when a signal is emitted, at most once per frame. */
export function useSignals(...signals: readonly (ISignal<unknown, unknown> | null | undefined)[]): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    let frame = 0;
    const onSignal = (): void => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        redraw();
      });
    };
    // Includes changes between drawing and listening.
    onSignal();
    for (const signal of signals) signal?.connect(onSignal);
    return () => {
      cancelAnimationFrame(frame);
      for (const signal of signals) signal?.disconnect(onSignal);
    };
    // The signals themselves are the dependencies.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, signals);
}

/** An object that lives as long as the view; null in its first drawing. React may draw a view, or mount it, more than once. */
export function useOwned<T extends IDisposable>(create: () => T): T | null {
  const [owned, setOwned] = useState<T | null>(null);
  useLayoutEffect(() => {
    const created = create();
    setOwned(created);
    return () => created.dispose();
    // A view of another object is another view.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return owned;
}
