// @ts-check
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkout } from './checkout.mjs';

vi.mock('./checkout.mjs', async original => {
  const real = /** @type {{ checkout: typeof checkout }} */ (await original());
  return { ...real, checkout: { ...real.checkout, stamps: '' } };
});
const { runStage } = await import('./stage.mjs');
const { StagePrinter } = await import('./stage-printer.mjs');

/** @type {string} */
let folder;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-stamps-'));
  Object.assign(checkout, { stamps: folder });
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** @param {Partial<import('./stage.mjs').Stage>} more */
function stageOf(more) {
  const state = { there: false, made: 0, print: 'one' };
  /** @type {import('./stage.mjs').Stage} */
  const stage = {
    id: 'part',
    title: 'a part',
    fingerprint: async () => state.print,
    isThere: async () => state.there,
    make: async () => {
      state.made += 1;
      state.there = true;
    },
    ...more
  };
  return { stage, state };
}

/** @param {import('./stage.mjs').Stage} stage */
function run(stage) {
  const context = {
    signal: new AbortController().signal,
    python: () => Promise.reject(new Error('not wanted'))
  };
  return runStage(stage, context, new StagePrinter({ write: () => undefined }));
}

describe('a stage of the setup', () => {
  it('is done once, again when its inputs change, and when its result was removed', async () => {
    const { stage, state } = stageOf({});
    expect(await run(stage)).toBe('made');
    expect(await run(stage)).toBe('kept');
    state.print = 'two';
    expect(await run(stage)).toBe('made');
    state.there = false;
    expect(await run(stage)).toBe('made');
    expect(state.made).toBe(3);
  });

  it('that failed is repeated, although a part of its result exists', async () => {
    const { stage, state } = stageOf({});
    const make = stage.make;
    stage.make = async () => {
      state.there = true;
      throw new Error('ended in the middle');
    };
    await expect(run(stage)).rejects.toThrow('ended in the middle');
    stage.make = make;
    expect(await run(stage)).toBe('made');
  });

  it('that was done in another way is kept when it is correct', async () => {
    const { stage, state } = stageOf({ isRight: async () => true });
    state.there = true;
    expect(await run(stage)).toBe('kept');
    expect(state.made).toBe(0);
  });

  it('that was done in another way is repeated when it is not correct', async () => {
    const { stage, state } = stageOf({ isRight: async () => false });
    state.there = true;
    expect(await run(stage)).toBe('made');
    expect(state.made).toBe(1);
  });
});
