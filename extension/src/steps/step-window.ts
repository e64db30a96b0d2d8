/** The visible steps of the timeline: how many, and whether it follows the newest one or stays at a chosen position. */

export const MIN_COUNT = 8;

export interface StepWindow {
  readonly count: number;
  /** Number of added steps up to and including the last visible one; null: follows the newest. */
  readonly end: number | null;
}

/** Steps of the ring that are newer than the window. @param added number of steps ever added to the ring */
export function behind({ end }: StepWindow, added: number, held: number): number {
  return end === null ? 0 : Math.min(Math.max(0, added - end), Math.max(0, held - 1));
}

/** Twice as many or half as many; the last visible step stays, unless there are none before it. */
export function zoomed(window: StepWindow, factor: number, held: number): StepWindow {
  const most = Math.max(MIN_COUNT, held);
  const count = Math.round(Math.min(most, Math.max(MIN_COUNT, window.count * factor)));
  return { ...window, count };
}

/** Moves towards older steps (negative) or newer ones; at the newest it follows again. */
export function moved(window: StepWindow, by: number, added: number, held: number): StepWindow {
  const oldest = added - held;
  const end = Math.max((window.end ?? added) + by, Math.min(added, oldest + Math.min(window.count, held)));
  return { ...window, end: end >= added ? null : end };
}
