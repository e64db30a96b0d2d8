/** Redraws when a signal is emitted, at most once per frame. */
import type { ISignal } from '@lumino/signaling';
import { useEffect, useReducer } from 'react';

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
