import { afterEach, describe, expect, it } from 'vitest';
import { trans, translateWith } from './trans.js';

const english = trans;

afterEach(() => translateWith({ load: () => english }));

describe('words without translations', () => {
  it('are filled in as in JupyterLab', () => {
    expect(english.__('%1 of %2 %', 3, 40)).toBe('3 of 40 %');
    expect(english._n('%1 step', '%1 steps', 1)).toBe('1 step');
    expect(english._n('%1 of %2', '%1 of %2 in all', 2, 'x')).toBe('2 of x in all');
  });
});

it('all texts are translated by the translator of the page, once there is one', () => {
  translateWith({ load: domain => ({ ...english, __: text => `${domain}: ${text}` }) });
  translateWith(null);
  expect(trans.__('Run')).toBe('jupyterlab_tpulab: Run');
});
