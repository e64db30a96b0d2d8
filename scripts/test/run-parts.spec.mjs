// @ts-check
import { describe, expect, it } from 'vitest';
import { groupsOf, runParts } from './run-parts.mjs';

const { signal } = new AbortController();

/**
 * @param {string} name
 * @param {Partial<import('./parts.mjs').Part>} [more]
 * @returns {import('./parts.mjs').Part}
 */
const part = (name, more = {}) => ({
  name,
  what: `tests of ${name}`,
  limitMin: 1,
  steps: async () => [],
  ...more
});

/** @param {string} name */
const resultOf = name => ({ name, counts: { passed: 1, failed: 0, skipped: 0 }, ms: 1, problems: [] });

/** Runs parts whose ends are given by hand. */
function running() {
  /** @type {string[]} */
  const events = [];
  /** @type {Map<string, () => void>} */
  const ends = new Map();
  /** @type {typeof import('./run-part.mjs').runPart} */
  const run = ({ name }, _signal, say) => {
    events.push(`${name} begins`);
    say(`${name} speaks`);
    return new Promise(resolve => ends.set(name, () => resolve(resultOf(name))));
  };
  return {
    events,
    run,
    end: async (/** @type {string} */ name) => {
      await turn();
      ends.get(name)?.();
      await turn();
    }
  };
}

const turn = () => new Promise(resolve => setImmediate(resolve));

describe('the parts of the tests', () => {
  it('run together where neighbours wait, else one after the other', () => {
    const waits = { waits: true };
    const parts = [part('a'), part('b', waits), part('c', waits), part('d'), part('e', waits)];
    expect(groupsOf(parts).map(group => group.map(({ name }) => name))).toEqual([
      ['a'],
      ['b', 'c'],
      ['d'],
      ['e']
    ]);
  });

  it('are told apart when they speak at once, and have their results in order', async () => {
    const { events, run, end } = running();
    /** @type {string[]} */
    const lines = [];
    const parts = [part('a', { waits: true }), part('b', { waits: true }), part('c')];
    const all = runParts(parts, signal, line => lines.push(line), run);
    await end('b');
    expect(events).toEqual(['a begins', 'b begins']);
    await end('a');
    expect(events).toEqual(['a begins', 'b begins', 'c begins']);
    await end('c');
    expect((await all).map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(lines.filter(line => line.includes('speaks'))).toEqual([
      'a            │ a speaks',
      'b            │ b speaks',
      'c speaks'
    ]);
  });

  it('fetch what they need beside an earlier one, and begin when it is there, whether that went well or not', async () => {
    const { events, run, end } = running();
    /** @type {(error: Error) => void} */
    let fail = () => undefined;
    /** @type {Promise<void>} */
    const fetched = new Promise((_, reject) => (fail = reject));
    const late = part('late', {
      prepareBeside: 'early',
      prepare: async () => {
        events.push('fetching');
        await fetched;
      }
    });
    const all = runParts([part('first'), part('early'), late], signal, () => undefined, run);
    await end('first');
    expect(events).toEqual(['first begins', 'fetching', 'early begins']);
    await end('early');
    expect(events).not.toContain('late begins');
    fail(new Error('no network'));
    await turn();
    expect(events.at(-1)).toBe('late begins');
    await end('late');
    expect(await all).toHaveLength(3);
  });

  it('end all before an interruption of one goes on', async () => {
    const { run, end } = running();
    const interrupted = new Error('interrupted');
    let isOver = false;
    const all = runParts(
      [part('a', { waits: true }), part('b', { waits: true })],
      signal,
      () => undefined,
      (one, ...rest) => (one.name === 'a' ? Promise.reject(interrupted) : run(one, ...rest))
    ).finally(() => (isOver = true));
    const outcome = all.catch((/** @type {unknown} */ error) => error);
    await turn();
    expect(isOver).toBe(false);
    await end('b');
    expect(await outcome).toBe(interrupted);
  });
});
