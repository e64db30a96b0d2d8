/** Sends one request per subject; repeats it while the bridge is unreachable. */
import { useEffect, useState } from 'react';
import { RemotesError } from '../../backends/remotes-api.js';

const RETRY_MS = 2_000;

interface IAnswer<T> {
  /** The newest answer; retained during the next request. */
  readonly value: T | null;
  readonly problem: string | null;
  readonly isAsking: boolean;
}

/** @param about a different value means another request; null: no request now */
export function useAnswer<T>(request: () => Promise<T>, about: string | null): IAnswer<T> {
  const [answer, setAnswer] = useState<IAnswer<T>>({ value: null, problem: null, isAsking: about !== null });
  useEffect(() => {
    if (about === null) return undefined;
    let isClosed = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const update = (change: Partial<IAnswer<T>>): void => {
      if (!isClosed) setAnswer(before => ({ ...before, ...change }));
    };
    const refused = (error: unknown): void => {
      update({ problem: error instanceof Error ? error.message : String(error), isAsking: false });
      if (error instanceof RemotesError && error.isPassing && !isClosed)
        timer = setTimeout(attempt, RETRY_MS);
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
    // `ask` is a new function at each rendering.
  }, [about]);
  return answer;
}
