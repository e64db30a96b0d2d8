import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkSessionId, MAX_SESSION_ID, MAX_SLOTS, PositionStore } from './position-store.js';

let folder: string;
let file: string;
const stores: PositionStore[] = [];

function open(): PositionStore {
  const store = new PositionStore(file);
  stores.push(store);
  return store;
}

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'positions-'));
  file = path.join(folder, 'positions');
});

afterEach(() => {
  for (const store of stores.splice(0)) store.close();
  rmSync(folder, { recursive: true });
});

describe('PositionStore', () => {
  it('knows what another one wrote, although that one was never closed', () => {
    const first = open();
    first.set('a', 1);
    first.set('b', 7);
    first.set('a', 12);
    const second = open();
    expect([second.get('a'), second.get('b'), second.get('c')]).toEqual([12, 7, undefined]);
  });

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

  it('lets the client that was confirmed longest ago give way when it is full', () => {
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

  it('holds any session id that is accepted', () => {
    for (const unit of ['"', '\\', '漢', 'ü']) {
      const id = checkSessionId(unit.repeat(MAX_SESSION_ID));
      open().set(id, Number.MAX_SAFE_INTEGER);
      expect(open().get(id)).toBe(Number.MAX_SAFE_INTEGER);
    }
  });

  it.each(['x'.repeat(MAX_SESSION_ID + 1), 'a\nb', '\u0000'])('does not accept the session id %j', id => {
    expect(() => checkSessionId(id)).toThrow(/session_id/);
  });
});
