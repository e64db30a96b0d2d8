/** React hooks that redraw for a model, at a moderate rate and only while it is visible. */
import type { ISignal } from '@lumino/signaling';
import { useEffect, useReducer } from 'react';

export interface Changing {
  readonly changed: ISignal<unknown, unknown>;
}

/** Figures that change faster than this are unreadable, and drawing them costs more than the chart does. */
const READABLE_INTERVAL_MS = 500;

/**
 * Redraws immediately for the first change, then at most once in `intervalMs`; not while paused, but once when resumed.
 * Waits end at whole multiples of the interval, so that all views of the page are laid out in one frame.
 */
export function useChanges(model: Changing | null, paused: boolean, intervalMs = READABLE_INTERVAL_MS): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (paused || !model) return;
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
      if (intervalMs > 0) timer = setTimeout(onTime, untilNextMs(intervalMs));
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

/** A timer may fire a little before its multiple, which then must not count as the next one. */
function untilNextMs(intervalMs: number): number {
  const waitMs = intervalMs - (Date.now() % intervalMs);
  return waitMs < intervalMs / 4 ? waitMs + intervalMs : waitMs;
}

/** Redraws each second while active: for counters and countdowns. */
export function useSeconds(active: boolean): void {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(redraw, 1_000);
    return () => clearInterval(timer);
  }, [active]);
}
