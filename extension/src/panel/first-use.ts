/**
 * Opens the panel automatically once: the first time that a notebook of this browser runs on the bridge.
 *
 * A new user of TPULab does not know that there is a panel. Afterwards the user opens and closes it,
 * and JupyterLab stores its state.
 */
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import type { ICurrentKernel } from '../tokens.js';

/** Key under which the browser stores that the panel has been shown. */
export const SHOWN_KEY = 'tpulab:panel-shown';

/** The used part of `Storage`; a browser that forbids storage throws at any of these. */
export interface Memory {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

/**
 * @param memory null where the browser has no storage: then the panel never opens automatically
 * @param show shows the panel without moving the focus
 */
export function showAtFirstUse(
  currentKernel: ICurrentKernel,
  memory: Memory | null,
  show: () => void
): IDisposable {
  const check = (): void => {
    if (currentKernel.current.kind !== 'bridge') {
      return;
    }
    following.dispose();
    try {
      if (memory?.getItem(SHOWN_KEY) === null) {
        memory.setItem(SHOWN_KEY, '1');
        show();
      }
    } catch {
      // Without stored state the panel would open at every start, so it never opens.
    }
  };
  const following = new DisposableDelegate(() => currentKernel.changed.disconnect(check));
  currentKernel.changed.connect(check);
  check();
  return following;
}
