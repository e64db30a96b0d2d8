import { describe, expect, it } from 'vitest';
import { type BufferedClient, UnsentBudget } from './unsent-budget.js';

class Client implements BufferedClient {
  isShed = false;
  constructor(readonly unsentBytes: number) {}
  disconnectSlow(): void {
    this.isShed = true;
  }
}

function shedOf(limit: number, sizes: readonly number[]): boolean[] {
  const clients = sizes.map(size => new Client(size));
  const budget = new UnsentBudget(limit);
  clients.forEach(client => budget.add(client));
  budget.check();
  return clients.map(({ isShed }) => isShed);
}

describe('[12] the budget of unsent data', () => {
  it('disconnects the slowest clients, and no more than necessary', () => {
    expect(shedOf(100, [10, 60, 50])).toEqual([false, true, false]);
    expect(shedOf(40, [10, 60, 50])).toEqual([false, true, true]);
  });

  it('disconnects no client while it fits', () => {
    expect(shedOf(120, [10, 60, 50])).toEqual([false, false, false]);
  });

  it('no longer counts a client that has left', () => {
    const budget = new UnsentBudget(100);
    const [slow, quick] = [new Client(90), new Client(20)];
    budget.add(slow);
    budget.add(quick);
    budget.remove(slow);
    budget.check();
    expect([slow.isShed, quick.isShed]).toEqual([false, false]);
  });
});
