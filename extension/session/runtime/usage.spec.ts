import { describe, expect, it } from 'vitest';
import { connectedSince, costText, priceOf, Prices } from './usage.js';

function storage(): Storage {
  const stored = new Map<string, string>();
  return {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value)
  } as unknown as Storage;
}

describe('the cost of a machine', () => {
  it('is its price times the time since the kernel was first seen, even after a reload', () => {
    const stored = storage();
    expect(connectedSince(stored, 'k1', 1_000)).toBe(1_000);
    expect(connectedSince(stored, 'k1', 9_000)).toBe(1_000);
    expect(costText(4.8, 7_380_000)).toBe('about 9.84');
  });

  it('remembers the kernels that were seen last', () => {
    const stored = storage();
    for (let at = 0; at < 60; at += 1) connectedSince(stored, `k${at}`, at);
    expect(connectedSince(stored, 'k59', 1e9)).toBe(59);
    expect(connectedSince(stored, 'k0', 1e9)).toBe(1e9);
  });

  it('is unknown until a price was entered, and again after its removal', () => {
    const prices = new Prices(storage());
    expect(prices.of('v5litepod-8')).toBeNull();
    prices.set('v5litepod-8', 9.6);
    prices.set('v6e-1', 2.7);
    expect(prices.of('v5litepod-8')).toBe(9.6);
    prices.set('v5litepod-8', null);
    expect([prices.of('v5litepod-8'), prices.of('v6e-1')]).toEqual([null, 2.7]);
  });

  it('accepts a price in the usual notations, and nothing else', () => {
    expect(['4.8', ' 4,80 ', '0', '-1', 'free', ''].map(priceOf)).toEqual([4.8, 4.8, null, null, null, null]);
  });

  it('works without a storage', () => {
    expect(connectedSince(null, 'k1', 5)).toBe(5);
    expect(new Prices(null).of('v6e-1')).toBeNull();
  });
});
