import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { FailedAttempts } from './failed-attempts.js';

function counting(limits: { perWindow?: number; maxAddresses?: number } = {}) {
  const lines: string[] = [];
  let now = 0;
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const attempts = new FailedAttempts(
    { perWindow: 3, windowMs: 60_000, maxAddresses: 4, ...limits },
    log,
    () => now
  );
  return { attempts, lines, pass: (ms: number) => void (now += ms) };
}

describe('FailedAttempts', () => {
  it('lets an address fail as often as the limit allows, then returns how long to wait', () => {
    const { attempts, pass } = counting();
    expect([1, 2, 3].map(() => attempts.note('a'))).toEqual([null, null, null]);
    expect(attempts.note('a')).toBe(60);
    pass(59_500);
    expect(attempts.note('a')).toBe(1);
    pass(500);
    expect(attempts.note('a')).toBeNull();
  });

  it('counts each address separately', () => {
    const { attempts } = counting();
    for (let count = 0; count < 10; count++) attempts.note('a');
    expect(attempts.note('b')).toBeNull();
  });

  it('logs one line per window, not one for each attempt', () => {
    const { attempts, lines } = counting();
    for (let count = 0; count < 100; count++) attempts.note('a');
    expect(lines).toHaveLength(1);
  });

  it('remembers a bounded number of addresses', () => {
    const { attempts } = counting();
    for (let count = 0; count < 1000; count++) attempts.note(`address-${count}`);
    expect(attempts.addresses).toBe(4);
  });

  it('drops first the address that has been quiet longest', () => {
    const { attempts } = counting({ perWindow: 1 });
    attempts.note('loud');
    for (let count = 0; count < 100; count++) {
      attempts.note(`other-${count}`);
      expect(attempts.note('loud')).not.toBeNull();
    }
  });
});
