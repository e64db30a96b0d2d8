/** React: the history of a machine for a range, requested again periodically while a view is open. */
import type { DevicesHistory } from '@tpulab/protocol';
import { useEffect, useState } from 'react';
import type { Range } from './history-window.js';
import type { MachineSource } from './machine-source.js';

export interface HistoryState {
  readonly history: DevicesHistory | null;
  /** Error of the last request; null after a success. */
  readonly failure: string | null;
}

/** After a failure. */
const RETRY_MS = 10_000;

export function useHistory(source: MachineSource | null, range: Range, paused: boolean): HistoryState {
  const [state, setState] = useState<HistoryState & { readonly range: Range | null }>({
    history: null,
    failure: null,
    range: null
  });
  useEffect(() => {
    if (!source || paused) {
      return;
    }
    const stopping = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const setStateUnlessOver: typeof setState = next => {
      if (!stopping.signal.aborted) {
        setState(next);
      }
    };
    const request = (): void => {
      source
        .history(range.tierS, Date.now() - range.lengthMs, stopping.signal)
        .then(
          history => {
            setStateUnlessOver({ history, failure: null, range });
            return range.refreshMs;
          },
          (error: unknown) => {
            setStateUnlessOver(before => ({
              ...before,
              failure: error instanceof Error ? error.message : String(error)
            }));
            return RETRY_MS;
          }
        )
        .then(
          waitMs => {
            if (!stopping.signal.aborted) {
              timer = setTimeout(request, waitMs);
            }
          },
          () => undefined
        );
    };
    request();
    return () => {
      stopping.abort();
      clearTimeout(timer);
    };
  }, [source, range, paused]);
  // Data requested for another range does not belong to this one.
  return state.range === range ? state : { history: null, failure: state.failure };
}
