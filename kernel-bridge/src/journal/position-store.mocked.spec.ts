import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { openSync as OpenSync, writeSync as WriteSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isSessionId, MAX_SESSION_ID, MAX_SLOTS, PositionStore } from './position-store.js';

let folder: string;
let file: string;
const stores: PositionStore[] = [];
let faults: unknown[] = [];
/** The code of the disk's error for every write; null: writes succeed. */
let refusal: string | null = null;

vi.mock('node:fs', async importOriginal => {
  const fs = await importOriginal<{ writeSync: typeof WriteSync; openSync: typeof OpenSync }>();
  const refused = (): void => {
    if (refusal !== null) throw Object.assign(new Error(refusal), { code: refusal });
  };
  return {
    ...fs,
    writeSync: (...args: Parameters<typeof WriteSync>) => {
      refused();
      return fs.writeSync(...args);
    },
    openSync: (...args: Parameters<typeof OpenSync>) => {
      refused();
      return fs.openSync(...args);
    }
  };
});

function open(): PositionStore {
  const store = new PositionStore(file, error => faults.push(error));
  stores.push(store);
  return store;
}

beforeEach(() => {
  faults = [];
  refusal = null;
  folder = mkdtempSync(path.join(tmpdir(), 'positions-'));
  file = path.join(folder, 'positions');
});

afterEach(() => {
  for (const store of stores.splice(0)) store.close();
  rmSync(folder, { recursive: true });
});

describe('PositionStore', () => {
  it('has the positions that another store wrote, although that one was never closed', () => {
    const first = open();
    first.set('a', 1);
    first.set('b', 7);
    first.set('a', 12);
    const second = open();
    expect([second.get('a'), second.get('b'), second.get('c')]).toEqual([12, 7, undefined]);
  });

  for (const code of ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE']) {
    it(`keeps positions in memory while the disk fails with ${code}, and writes them when it works again`, () => {
      open().set('before', 3);
      refusal = code;
      const store = open();
      store.set('a', 5);
      store.set('b', 6);
      store.set('a', 7);
      expect(faults).toMatchObject([{ code }]);
      expect(store.get('a')).toBe(7);
      refusal = null;
      store.set('b', 8);
      const after = open();
      expect([after.get('before'), after.get('a'), after.get('b')]).toEqual([3, 7, 8]);
    });
  }

  it('is readable by its owner alone', () => {
    open().set('a', 1);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it('keeps each client in its own place, so that a file does not grow with confirmations', () => {
    const store = open();
    for (let seq = 1; seq <= 1000; seq++) store.set('a', seq);
    const size = statSync(file).size;
    store.set('a', 1001);
    expect(statSync(file).size).toBe(size);
    expect(readFileSync(file, 'utf8').trim().split('\n')).toHaveLength(1);
  });

  it('drops the client with the oldest confirmation when it is full', () => {
    const store = open();
    for (let client = 0; client <= MAX_SLOTS; client++) store.set(`client-${client}`, client);
    expect(store.get('client-0')).toBeUndefined();
    expect(store.get(`client-${MAX_SLOTS}`)).toBe(MAX_SLOTS);
    const again = open();
    expect(again.get('client-0')).toBeUndefined();
    expect(again.get('client-1')).toBe(1);
  });

  it('treats a slot that was cut at any byte as free and keeps the others', () => {
    const store = open();
    store.set('a', 3);
    store.set('b', 4);
    const whole = statSync(file).size;
    const slot = whole / 2;
    const bytes = readFileSync(file);
    for (let cut = slot + 1; cut < whole; cut++) {
      writeFileSync(file, bytes);
      truncateSync(file, cut);
      const reopened = open();
      expect(reopened.get('a')).toBe(3);
      expect([undefined, 4]).toContain(reopened.get('b'));
      reopened.set('c', 5);
      expect(open().get('c')).toBe(5);
      reopened.close();
    }
  });

  it('moves back only positions beyond the end of a truncated journal', () => {
    const store = open();
    store.set('behind', 6);
    store.set('beyond', 9);
    store.pullBack(7);
    for (const each of [store, open()]) expect([each.get('behind'), each.get('beyond')]).toEqual([6, 7]);
  });

  it('accepts any valid session id', () => {
    for (const unit of ['"', '\\', '漢', 'ü']) {
      const id = unit.repeat(MAX_SESSION_ID);
      expect(isSessionId(id)).toBe(true);
      open().set(id, Number.MAX_SAFE_INTEGER);
      expect(open().get(id)).toBe(Number.MAX_SAFE_INTEGER);
    }
  });

  it.each(['x'.repeat(MAX_SESSION_ID + 1), 'a\nb', '\u0000'])('does not accept the session id %j', id => {
    expect(isSessionId(id)).toBe(false);
  });
});
