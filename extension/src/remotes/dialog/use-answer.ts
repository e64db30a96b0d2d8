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
export function useAnswer<T>(request: () => Promise<T>, about: string | null): IAnswer<T> {
  const [answer, setAnswer] = useState<IAnswer<T>>({ value: null, problem: null, isAsking: about !== null });
  useEffect(() => {
    if (about === null) {
      return undefined;
    }
    let isClosed = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const update = (change: Partial<IAnswer<T>>): void => {
      if (!isClosed) setAnswer(before => ({ ...before, ...change }));
    };
    const refused = (error: unknown): void => {
      update({ problem: error instanceof Error ? error.message : String(error), isAsking: false });
      if (error instanceof RemotesError && error.isPassing && !isClosed)
        timer = setTimeout(attempt, AGAIN_MS);
    };
    const attempt = (): void => {
      request().then(value => update({ value, problem: null, isAsking: false }), refused);
    };
    update({ problem: null, isAsking: true });
    attempt();
    return () => {
      isClosed = true;
      clearTimeout(timer);
    };
    // `ask` is made anew each time the view is drawn.
  }, [about]);
  return answer;
}
