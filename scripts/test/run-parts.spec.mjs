// @ts-check
import { describe, expect, it } from 'vitest';
import { nextPart, runParts } from './run-parts.mjs';

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
  share: 1,
  load: 2,
  steps: async () => [],
  ...more
});

/** @param {string} name */
const resultOf = name => ({
  name,
  counts: { passed: 1, failed: 0, skipped: 0 },
  ms: 1,
  problems: [],
  failures: []
});

/** Runs parts whose ends the test controls. */
function running() {
  /** @type {string[]} */
  const events = [];
  /** @type {Map<string, () => void>} */
  const ends = new Map();
  /** @type {NonNullable<Parameters<typeof runParts>[3]>} */
  const run = ({ name }, _signal, print) => {
    events.push(`${name} begins`);
    print(`${name} speaks`);
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
  it('run side by side as far as two cores carry them, the first that fits first', () => {
    const [light, half, heavy] = [part('light', { load: 0.3 }), part('half', { load: 1 }), part('heavy')];
    expect(nextPart([heavy, half, light], [])).toBe(heavy);
    expect(nextPart([heavy, half, light], [half])).toBe(half);
    expect(nextPart([heavy, half, light], [half, half])).toBe(null);
    expect(nextPart([heavy, light], [half, light])).toBe(light);
    expect(nextPart([half, light], [heavy])).toBe(null);
    expect(nextPart([], [])).toBe(null);
  });

  it('run alone when they would keep more than all cores busy', () => {
    const greedy = part('greedy', { load: 3 });
    expect(nextPart([greedy], [])).toBe(greedy);
    expect(nextPart([greedy], [part('light', { load: 0.1 })])).toBe(null);
  });

  it('begin as soon as there is room, are labelled, and have their results in order', async () => {
    const { events, run, end } = running();
    /** @type {string[]} */
    const lines = [];
    const parts = [part('a', { load: 1 }), part('b', { load: 0.5 }), part('c', { load: 1 }), part('d')];
    const all = runParts(parts, signal, line => lines.push(line), run);
    await end('b');
    expect(events).toEqual(['a begins', 'b begins', 'c begins']);
    await end('a');
    await end('c');
    expect(events).toEqual(['a begins', 'b begins', 'c begins', 'd begins']);
    await end('d');
    expect((await all).map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
    expect(lines.filter(line => line.includes('speaks'))).toEqual([
      'a            │ a speaks',
      'b            │ b speaks',
      'c            │ c speaks',
      'd            │ d speaks'
    ]);
  });

  it('fetch what they need while others run, and begin after the fetch, whether it succeeded or not', async () => {
    const { events, run, end } = running();
    /** @type {(error: Error) => void} */
    let fail = () => undefined;
    /** @type {Promise<void>} */
    const fetched = new Promise((_, reject) => (fail = reject));
    const late = part('late', {
      prepare: async () => {
        events.push('fetching');
        await fetched;
      }
    });
    const all = runParts([part('first'), late, part('other')], signal, () => undefined, run);
    await end('first');
    await end('other');
    expect(events).toEqual(['fetching', 'first begins', 'other begins']);
    fail(new Error('no network'));
    await turn();
    expect(events.at(-1)).toBe('late begins');
    await end('late');
    expect(await all).toHaveLength(3);
  });

  it('that set something up themselves wait for fetches: one setup runs at a time', async () => {
    const { events, run, end } = running();
    let arrive = () => undefined;
    /** @type {Promise<void>} */
    const fetched = new Promise(resolve => (arrive = () => void resolve()));
    const late = part('late', { prepare: () => fetched });
    const all = runParts(
      [part('starts', { setsUp: true }), part('plain'), late],
      signal,
      () => undefined,
      run
    );
    await end('plain');
    expect(events).toEqual(['plain begins']);
    arrive();
    await end('starts');
    await end('late');
    expect(events).toEqual(['plain begins', 'starts begins', 'late begins']);
    expect((await all).map(({ name }) => name)).toEqual(['starts', 'plain', 'late']);
  });

  it('end all before an interruption of one continues', async () => {
    const { events, run, end } = running();
    const interrupted = new Error('interrupted');
    let isOver = false;
    const all = runParts(
      [part('a', { load: 1 }), part('b', { load: 1 }), part('c')],
      signal,
      () => undefined,
      (one, ...rest) => (one.name === 'a' ? Promise.reject(interrupted) : run(one, ...rest))
    ).finally(() => (isOver = true));
    const outcome = all.catch((/** @type {unknown} */ error) => error);
    await turn();
    expect(isOver).toBe(false);
    await end('b');
    expect(await outcome).toBe(interrupted);
    expect(events).not.toContain('c begins');
  });
});
