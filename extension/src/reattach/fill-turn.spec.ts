import { YNotebook } from '@jupyter/ydoc';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { applyAwarenessUpdate, encodeAwarenessUpdate, removeAwarenessStates } from 'y-protocols/awareness';
import { applyUpdate, encodeStateAsUpdate } from 'yjs';
import { FillTurn, waitForTurn } from './fill-turn.js';

/** Two pages with one shared document. The spec decides when messages pass. */
class Room {
  readonly pages = [new YNotebook(), new YNotebook()] as const;
  private readonly waiting: (() => void)[] = [];
  isHeld = false;

  constructor() {
    this.pages.forEach((page, at) => {
      const other = this.pages[1 - at]!;
      page.awareness.on(
        'update',
        (changes: Record<'added' | 'updated' | 'removed', number[]>, from: unknown) => {
          if (from === 'room') {
            return;
          }
          const ids = [...changes.added, ...changes.updated, ...changes.removed];
          this.pass(() =>
            applyAwarenessUpdate(other.awareness, encodeAwarenessUpdate(page.awareness, ids), 'room')
          );
        }
      );
      page.ydoc.on('update', (update: Uint8Array, from: unknown) => {
        if (from !== 'room') {
          this.pass(() => applyUpdate(other.ydoc, update, 'room'));
        }
      });
    });
  }

  pass(what: () => void): void {
    if (this.isHeld) {
      this.waiting.push(what);
    } else {
      what();
    }
  }

  release(): void {
    this.isHeld = false;
    this.waiting.splice(0).forEach(what => what());
  }

  fillTurn(at: 0 | 1, kernel = 'k'): FillTurn {
    return new FillTurn(this.pages[at].awareness, kernel);
  }

  /** The page is closed; the server notifies the other one. */
  close(at: 0 | 1): void {
    const { awareness } = this.pages[at];
    removeAwarenessStates(this.pages[at === 0 ? 1 : 0].awareness, [awareness.clientID], 'room');
  }

  dispose(): void {
    this.pages.forEach(page => page.dispose());
  }
}

describe('pages that share a notebook', () => {
  let room: Room;
  beforeEach(() => (room = new Room()));
  afterEach(() => room.dispose());

  it('let one of them fill: the first', () => {
    const [a, b] = [room.fillTurn(0), room.fillTurn(1)];
    expect([a.isMine, b.isMine]).toEqual([true, false]);
  });

  it('show each output once', () => {
    const [one, two] = room.pages;
    one.fromJSON({
      cells: [{ cell_type: 'code', id: 'c', source: 'x', metadata: {}, outputs: [], execution_count: null }],
      metadata: {},
      nbformat: 4,
      nbformat_minor: 5
    });
    expect(encodeStateAsUpdate(two.ydoc)).toEqual(encodeStateAsUpdate(one.ydoc));
    const fill = (page: YNotebook, fillTurn: FillTurn): void => {
      if (fillTurn.isMine) {
        const output = { output_type: 'stream', name: 'stdout', text: 'line 0\n' } as const;
        (page.cells[0] as unknown as { setOutputs(outputs: object[]): void }).setOutputs([output]);
      }
    };
    fill(one, room.fillTurn(0));
    fill(two, room.fillTurn(1));
    expect(two.toJSON().cells[0]?.['outputs']).toHaveLength(1);
    expect(one.toJSON()).toEqual(two.toJSON());
  });

  it('pass the task on when that page has left or releases the kernel', () => {
    const [a, b] = [room.fillTurn(0), room.fillTurn(1)];
    const states: boolean[] = [];
    b.changed.connect(({ isMine }) => states.push(isMine));
    room.close(0);
    expect(states).toEqual([true]);
    a.dispose();
    b.dispose();
    const [c, d] = [room.fillTurn(1), room.fillTurn(0)];
    expect([c.isMine, d.isMine]).toEqual([true, false]);
    c.dispose();
    expect(d.isMine).toBe(true);
  });

  it('with simultaneous claims agree as soon as they see each other', () => {
    room.isHeld = true;
    const [a, b] = [room.fillTurn(0), room.fillTurn(1)];
    expect([a.isMine, b.isMine]).toEqual([true, true]);
    room.release();
    const [one, two] = room.pages;
    const isFirst = one.awareness.clientID < two.awareness.clientID;
    expect([a.isMine, b.isMine]).toEqual([isFirst, !isFirst]);
  });

  it('of different kernels do not hinder each other', () => {
    expect([room.fillTurn(0, 'k1').isMine, room.fillTurn(1, 'k2').isMine]).toEqual([true, true]);
  });

  it('take turns even if they see each other only after both have claimed the task', async () => {
    room.isHeld = true;
    const closing = new AbortController();
    const order: number[] = [];
    const turns = [0, 1].map(async at => {
      await waitForTurn(room.pages[at]!.awareness, 'k', closing.signal);
      if (!closing.signal.aborted) {
        order.push(at);
      }
    });
    const claims = (at: 0 | 1): unknown => room.pages[at].awareness.getLocalState()?.['tpulab fills k'];
    await vi.waitUntil(() => claims(0) === 'filling' && claims(1) === 'filling', 30_000);
    room.release();
    await Promise.race(turns);
    expect(order).toHaveLength(1);
    closing.abort();
    await Promise.all(turns);
    expect(order).toHaveLength(1);
  });
});
