/** React hooks that redraw for a model, at a calm pace and only while somebody can see it. */
import type { ISignal } from '@lumino/signaling';
import { useEffect, useReducer } from 'react';

export interface Changing {
  readonly changed: ISignal<unknown, unknown>;
}

/** Figures that change faster than this cannot be read. */
export const READABLE_INTERVAL_MS = 250;

/** Redraws at once for the first change, then at most once in `intervalMs`; not while paused, but once when resumed. */
export function useChanges(model: Changing | null, paused: boolean, intervalMs = READABLE_INTERVAL_MS): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (paused || !model) {
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let pending = false;
    const onTime = (): void => {
      timer = undefined;
      if (pending) {
        pending = false;
        onChange();
      }
    };
    const onChange = (): void => {
      if (timer !== undefined) {
        pending = true;
        return;
      }
      timer = setTimeout(onTime, intervalMs);
      redraw();
    };
    redraw();
    model.changed.connect(onChange);
    return () => {
      clearTimeout(timer);
      model.changed.disconnect(onChange);
    };
  }, [model, paused, intervalMs]);
}

/** Redraws each second while active: for what counts up or down. */
export function useSeconds(active: boolean): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (!active) {
      return;
    }
    const timer = setInterval(redraw, 1_000);
    return () => clearInterval(timer);
  }, [active]);
}
