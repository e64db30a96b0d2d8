import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ICurrentKernel } from '../tokens.js';
import { type Memory, showAtFirstUse, SHOWN_KEY } from './first-use.js';

/** A current kernel that a test can move; only the kind matters here. */
function movableKernel(): { currentKernel: ICurrentKernel; moveTo: (kind: string) => void } {
  const state = { current: { kind: 'none' }, kernel: null };
  const changed = new Signal<ICurrentKernel, void>(state as unknown as ICurrentKernel);
  const currentKernel = Object.assign(state, { changed }) as unknown as ICurrentKernel;
  return {
    currentKernel,
    moveTo: kind => {
      state.current = { kind };
      changed.emit();
    }
  };
}

function memoryWith(entries: Record<string, string> = {}): Memory & { readonly map: Map<string, string> } {
  const map = new Map(Object.entries(entries));
  return { map, getItem: key => map.get(key) ?? null, setItem: (key, value) => void map.set(key, value) };
}

const owned: IDisposable[] = [];

afterEach(() => owned.splice(0).forEach(one => one.dispose()));

describe('the first use', () => {
  it('shows the panel once a notebook runs on the bridge, and never again', () => {
    const { currentKernel, moveTo } = movableKernel();
    const memory = memoryWith();
    const show = vi.fn();
    owned.push(showAtFirstUse(currentKernel, memory, show));
    moveTo('local');
    expect(show).not.toHaveBeenCalled();
    moveTo('bridge');
    moveTo('local');
    moveTo('bridge');
    expect(show).toHaveBeenCalledTimes(1);
    expect(memory.map.has(SHOWN_KEY)).toBe(true);

    const again = vi.fn();
    owned.push(showAtFirstUse(currentKernel, memory, again));
    moveTo('bridge');
    expect(again).not.toHaveBeenCalled();
  });

  it('stays silent where the browser has no storage or forbids it', () => {
    const { currentKernel, moveTo } = movableKernel();
    const show = vi.fn();
    const refuse = (): never => {
      throw new DOMException('no', 'SecurityError');
    };
    owned.push(showAtFirstUse(currentKernel, null, show));
    owned.push(showAtFirstUse(currentKernel, { getItem: refuse, setItem: refuse }, show));
    owned.push(showAtFirstUse(currentKernel, { getItem: () => null, setItem: refuse }, show));
    moveTo('bridge');
    expect(show).not.toHaveBeenCalled();
  });

  it('does nothing after it was disposed', () => {
    const { currentKernel, moveTo } = movableKernel();
    const show = vi.fn();
    const use = showAtFirstUse(currentKernel, memoryWith(), show);
    use.dispose();
    moveTo('bridge');
    expect(show).not.toHaveBeenCalled();
  });
});
