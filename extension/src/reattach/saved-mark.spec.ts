import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';
import { SavedMark } from './saved-mark.js';

class Page {
  readonly path = 'n.ipynb';
  contentsModel: { last_modified: string } | null = null;
  readonly saveState = new Signal<this, 'started' | 'failed' | 'completed'>(this);
  readonly fileChanged = new Signal<this, void>(this);
  readonly mark: SavedMark;
  readonly kernel = {
    id: 'k',
    anyMessage: new Signal<object, void>({}),
    _msgChain: Promise.resolve()
  };
  readonly link = { position: 0 };
  readonly end = new AbortController();

  constructor(storage: ConstructorParameters<typeof SavedMark>[1], modified: string | null) {
    this.mark = new SavedMark(this as never, storage);
    if (modified !== null) this.written(modified);
  }

  follow(until: number): void {
    this.mark.follow(
      this.kernel as unknown as Kernel.IKernelConnection,
      { link: this.link, until },
      this.end.signal
    );
  }

  async received(seq: number): Promise<void> {
    this.link.position = seq;
    this.kernel.anyMessage.emit();
    await Promise.resolve();
    await Promise.resolve();
  }

  written(modified: string): void {
    this.contentsModel = { last_modified: modified };
    this.fileChanged.emit();
  }
}

function storage(): Pick<Storage, 'getItem' | 'setItem'> {
  const items = new Map<string, string>();
  return { getItem: key => items.get(key) ?? null, setItem: (key, value) => void items.set(key, value) };
}

const T1 = '2026-01-01T12:00:00Z';
const T2 = '2026-01-01T12:00:05Z';

describe('the record that a file shows', () => {
  it('belongs to the moment at which the page took the content, not to the write of the file', async () => {
    const store = storage();
    const page = new Page(store, T1);
    page.follow(5);
    await page.received(7);
    page.saveState.emit('started');
    await page.received(9);
    page.written(T2);
    page.saveState.emit('completed');
    expect(new Page(store, T2).mark.base).toMatchObject({ kernel: 'k', seq: 7 });
  });

  it('is unknown for a file that another program has written', async () => {
    const store = storage();
    const page = new Page(store, T1);
    page.follow(5);
    page.saveState.emit('started');
    page.written(T2);
    page.saveState.emit('completed');
    const later = '2026-01-01T13:00:00Z';
    expect(new Page(store, later).mark.base).toEqual({ at: Date.parse(later) });
    page.written(later);
    expect(page.mark.base).toEqual({ at: Date.parse(later) });
  });

  it('is the same if the page was left after the write and before the answer', async () => {
    const store = storage();
    const page = new Page(store, T1);
    page.follow(5);
    await page.received(7);
    page.saveState.emit('started');
    expect(new Page(store, T2).mark.base).toEqual({ at: Date.parse(T1), kernel: 'k', seq: 7 });
    page.written(T2);
    page.saveState.emit('completed');
    const later = '2026-01-01T13:00:00Z';
    expect(new Page(store, later).mark.base).toEqual({ at: Date.parse(later) });
  });

  it('does not include messages that wait to be shown', async () => {
    const page = new Page(storage(), T1);
    page.follow(5);
    page.kernel._msgChain = new Promise(() => undefined);
    await page.received(9);
    page.end.abort();
    expect(page.mark.base).toMatchObject({ kernel: 'k', seq: 5 });
  });

  it('stays as loaded while the kernel is unreachable, even when something is typed and saved', () => {
    const store = storage();
    const page = new Page(store, T1);
    page.saveState.emit('started');
    page.written(T2);
    page.saveState.emit('completed');
    expect(page.mark.base).toEqual({ at: Date.parse(T1) });
    expect(new Page(store, T2).mark.base).toMatchObject({ at: Date.parse(T1) });
  });

  it('works without a storage, and with entries of other programs in it', () => {
    expect(new Page(null, T1).mark.base).toEqual({ at: Date.parse(T1) });
    expect(new Page({ getItem: () => '[1', setItem: () => undefined }, null).mark.base).toEqual({ at: null });
  });
});
