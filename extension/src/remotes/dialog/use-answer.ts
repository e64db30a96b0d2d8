/** Asks for something once for each reason to ask. */
import { useEffect, useState } from 'react';

export interface IAnswer<T> {
  /** The newest that has come; it stays while something else is asked. */
  readonly value: T | null;
  readonly problem: string | null;
  readonly isAsking: boolean;
}

/** @param about another one is another question; null: there is nothing to ask now */
export function useAnswer<T>(ask: () => Promise<T>, about: string | null): IAnswer<T> {
  const [answer, setAnswer] = useState<IAnswer<T>>({ value: null, problem: null, isAsking: about !== null });
  useEffect(() => {
    if (about === null) {
      return undefined;
    }
    let isGone = false;
    const say = (change: Partial<IAnswer<T>>): void => {
      if (!isGone) setAnswer(before => ({ ...before, ...change }));
    };
    say({ problem: null, isAsking: true });
    ask().then(
      value => say({ value, isAsking: false }),
      (error: unknown) =>
        say({ problem: error instanceof Error ? error.message : String(error), isAsking: false })
    );
    return () => {
      isGone = true;
    };
    // `ask` is made anew each time the view is drawn.
  }, [about]);
  return answer;
}
