/** Asks for something once for each reason to ask; again and again while the bridge cannot be reached. */
import { useEffect, useState } from 'react';
import { RemotesError } from '../../backends/remotes-api.js';

const AGAIN_MS = 2_000;

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
    let timer: ReturnType<typeof setTimeout> | undefined;
    const say = (change: Partial<IAnswer<T>>): void => {
      if (!isGone) setAnswer(before => ({ ...before, ...change }));
    };
    const refused = (error: unknown): void => {
      say({ problem: error instanceof Error ? error.message : String(error), isAsking: false });
      if (error instanceof RemotesError && error.isPassing && !isGone) timer = setTimeout(attempt, AGAIN_MS);
    };
    const attempt = (): void => {
      ask().then(value => say({ value, problem: null, isAsking: false }), refused);
    };
    say({ problem: null, isAsking: true });
    attempt();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
    // `ask` is made anew each time the view is drawn.
  }, [about]);
  return answer;
}
