import { describe, expect, it } from 'vitest';
import { AskedEnd, CrashCount, Executed } from './kernel-endings.js';
import { STABLE_MS } from '../keeper-protocol/contract.js';

describe('crashes in a row', () => {
  it('allow as many restarts as the limit says', () => {
    const crashes = new CrashCount(2);
    expect([0, 0, 0, 0].map(ms => crashes.mayRestart(ms))).toEqual([true, true, false, false]);
  });

  it('begin anew when the kernel has run for a while, or when somebody asks for a restart', () => {
    const crashes = new CrashCount(1);
    expect([0, STABLE_MS, STABLE_MS, 0].map(ms => crashes.mayRestart(ms))).toEqual([true, true, true, false]);
    crashes.forget();
    expect(crashes.mayRestart(0)).toBe(true);
  });

  it('allow none when the limit is zero', () => {
    expect(new CrashCount(0).mayRestart(STABLE_MS)).toBe(false);
  });
});

// F15: a crash is one, although a client asked long before.
describe('the end that a client asked for', () => {
  const message = (channel: 'shell' | 'control', content: object) => ({
    channel,
    parts: [{}, {}, {}, content].map(part => Buffer.from(JSON.stringify(part)))
  });
  const header = (msg_id: string, msg_type: string) => ({ msg_id, msg_type, session: 's' });
  const asked = (restart = false): AskedEnd => {
    const end = new AskedEnd();
    end.sent(message('control', { restart }), header('ask', 'shutdown_request'));
    return end;
  };

  it('is what it asked for, before the kernel answers and soon after', () => {
    expect(new AskedEnd().meaning()).toBeNull();
    expect(asked().meaning()).toBe('shutdown');
    const end = asked(true);
    end.answered(header('ask', 'shutdown_request'), 1_000);
    expect(end.meaning(2_000)).toBe('restart');
  });

  it('is a crash when the kernel goes on: after its answer, or with what was asked later', () => {
    const answered = asked();
    answered.answered(header('ask', 'shutdown_request'), 1_000);
    expect(answered.meaning(3_600_000)).toBeNull();
    const passedOver = asked();
    passedOver.sent(message('shell', {}), header('cell', 'execute_request'));
    passedOver.answered(header('cell', 'execute_request'));
    expect(passedOver.meaning()).toBe('shutdown');
    passedOver.sent(message('control', {}), header('other', 'kernel_info_request'));
    passedOver.answered(header('other', 'kernel_info_request'));
    expect(passedOver.meaning()).toBeNull();
  });
});

it('remembers which executions were asked for, the newest ten thousand', () => {
  const executed = new Executed();
  for (let n = 0; n <= 10_000; n++) expect(executed.add(`${n}`)).toBe(true);
  expect(executed.add('10000')).toBe(false);
  expect(executed.add('0')).toBe(true);
});
