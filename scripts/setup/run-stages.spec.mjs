// @ts-check
import { describe, expect, it } from 'vitest';
import { runStages } from './run-stages.mjs';
import { Interrupted } from './setup-problem.mjs';

/** @typedef {import('./stage.mjs').Stage} Stage */

/**
 * @param {string} id
 * @param {string[]} [after]
 * @returns {Stage}
 */
const stage = (id, after) => ({
  id,
  title: id,
  fingerprint: async () => '',
  isThere: async () => false,
  make: async () => undefined,
  ...(after ? { after } : {})
});

const turn = () => new Promise(resolve => setImmediate(resolve));

/** Runs stages whose ends the test controls. */
function running() {
  /** @type {string[]} */
  const begun = [];
  /** @type {Map<string, { resolve: (outcome: 'made' | 'kept') => void, reject: (error: Error) => void }>} */
  const ends = new Map();
  const stopping = new AbortController();
  /** @type {AbortSignal | undefined} */
  let given;
  return {
    begun,
    stopping,
    isStopped: () => given?.aborted === true,
    /** @param {Stage[]} stages */
    run: stages =>
      runStages(stages, stopping.signal, ({ id }, signal) => {
        begun.push(id);
        given = signal;
        return new Promise((resolve, reject) => {
          ends.set(id, { resolve, reject });
        });
      }),
    /** @param {string} id */
    end: async (id, /** @type {Error | 'made' | 'kept'} */ outcome = 'made') => {
      const { resolve, reject } = ends.get(id) ?? {};
      if (outcome instanceof Error) reject?.(outcome);
      else resolve?.(outcome);
      await turn();
    }
  };
}

describe('the stages of the setup', () => {
  it('run two at a time, and none before the stages that it needs', async () => {
    const { begun, run, end } = running();
    const all = run([stage('npm', []), stage('build', ['npm']), stage('uv', []), stage('lab', ['uv'])]);
    await turn();
    expect(begun).toEqual(['npm', 'uv']);
    await end('uv');
    expect(begun).toEqual(['npm', 'uv', 'lab']);
    await end('lab', 'kept');
    expect(begun).toHaveLength(3);
    await end('npm');
    expect(begun.at(-1)).toBe('build');
    await end('build');
    expect(await all).toBe(3);
  });

  it('run alone, after all before them, when they do not declare their needs', async () => {
    const { begun, run, end } = running();
    const all = run([stage('first', []), stage('alone'), stage('last', ['alone'])]);
    await turn();
    expect(begun).toEqual(['first']);
    await end('first');
    expect(begun).toEqual(['first', 'alone']);
    await end('alone');
    await end('last');
    expect(await all).toBe(3);
  });

  it('need only stages of the same run', async () => {
    const { run, end } = running();
    const all = run([stage('build', ['npm'])]);
    await turn();
    await end('build', 'kept');
    expect(await all).toBe(0);
  });

  it('end with the first failure, once the stages beside it have ended too', async () => {
    const { begun, isStopped, run, end } = running();
    let isOver = false;
    const all = run([stage('npm', []), stage('uv', []), stage('lab', ['uv'])]);
    const outcome = all.catch((/** @type {unknown} */ error) => error).finally(() => (isOver = true));
    const failure = new Error('no network');
    await turn();
    await end('npm', failure);
    expect([isStopped(), isOver]).toEqual([true, false]);
    await end('uv', new Interrupted());
    expect(await outcome).toBe(failure);
    expect(begun).toEqual(['npm', 'uv']);
  });

  it('are interrupted between two of them', async () => {
    const { begun, stopping, run, end } = running();
    const all = run([stage('npm', []), stage('build', ['npm'])]);
    const outcome = all.catch((/** @type {unknown} */ error) => error);
    await turn();
    stopping.abort();
    await end('npm');
    expect(await outcome).toBeInstanceOf(Interrupted);
    expect(begun).toEqual(['npm']);
  });
});
