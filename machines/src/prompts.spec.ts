import { describe, expect, it } from 'vitest';
import { Prompts } from './prompts.js';

function scene() {
  const opened: string[] = [];
  const hidden: string[] = [];
  const prompts = new Prompts({
    host: 'vm',
    onOpen: ({ text }) => opened.push(text),
    onAnswered: () => undefined,
    hide: secret => hidden.push(secret)
  });
  prompts.beginAttempt();
  const request = (
    text: string,
    signal = new AbortController().signal,
    kind: 'secret' | 'confirm' = 'secret'
  ) => prompts.ask({ kind, text }, signal);
  const answer = (value: string | boolean) => prompts.answer(prompts.current!.id, value);
  return { prompts, opened, hidden, ask: request, answer };
}

describe('questions of ssh', () => {
  it('are shown to a person, and the answer is stored for the next connection', async () => {
    const { prompts, opened, hidden, ask: request, answer } = scene();
    const first = request('Passphrase:');
    answer('sesame');
    expect(await first).toBe('sesame');
    prompts.beginAttempt();
    expect(await request('Passphrase:')).toBe('sesame');
    expect([opened, hidden]).toEqual([['Passphrase:'], ['sesame']]);
  });

  it('that repeat in one attempt were answered wrongly, so the stored answer is dropped', async () => {
    const { prompts, opened, ask: request, answer } = scene();
    const first = request('Passphrase:');
    answer('wrong');
    await first;
    prompts.beginAttempt();
    expect(await request('Passphrase:')).toBe('wrong');
    const second = request('Passphrase:');
    answer('right');
    expect(await second).toBe('right');
    expect(opened).toHaveLength(2);
  });

  it('stay open when ssh has given up, and the next attempt uses the answer', async () => {
    const { prompts, ask: request, answer } = scene();
    const ended = new AbortController();
    const first = request('Password:', ended.signal);
    ended.abort();
    expect(await first).toBeNull();
    expect(prompts.current).not.toBeNull();
    const settled = prompts.settled();
    answer('late');
    await settled;
    prompts.beginAttempt();
    expect(await request('Password:')).toBe('late');
  });

  it('answered by a person are distinguished from those answered from memory', async () => {
    const { prompts, ask: request, answer } = scene();
    const first = request('Password:');
    expect(prompts.wasAnswered).toBe(false);
    answer('sesame');
    await first;
    expect(prompts.wasAnswered).toBe(true);
    prompts.beginAttempt();
    await request('Password:');
    expect(prompts.wasAnswered).toBe(false);
  });

  it.each([
    [true, 'yes'],
    [false, 'no'],
    ['SHA256:abc', 'SHA256:abc']
  ])('about a host key accept %j', async (value, given) => {
    const { ask: request, answer } = scene();
    const question = request('Continue (yes/no/[fingerprint])?', undefined, 'confirm');
    answer(value);
    expect(await question).toBe(given);
  });

  it('can be declined; an invalid answer is a refusal too', async () => {
    for (const value of [false, 'two\nlines']) {
      const { prompts, ask: request, answer } = scene();
      const question = request('Password:');
      answer(value);
      expect(await question).toBeNull();
      expect(prompts.wasRefused).toBe(true);
    }
  });

  it('are forgotten with the remote', async () => {
    const { prompts, ask: request } = scene();
    const question = request('Password:');
    prompts.forget();
    expect(await question).toBeNull();
    expect([prompts.current, prompts.answer('x', 'y')]).toEqual([null, false]);
  });
});
