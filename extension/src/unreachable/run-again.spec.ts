import { afterEach, beforeEach, expect, test } from 'vitest';
import { RunNotebook } from '../testing/run-notebook.js';
import { cellsToRunAgain, RunAgain } from './run-again.js';

let notebook: RunNotebook;
let runs: RunAgain;
beforeEach(() => {
  notebook = new RunNotebook(['a', 'b', 'c', 'd'], { id: 'k', name: 'jax' });
  runs = new RunAgain(notebook.options);
});
afterEach(() => runs.dispose());

const nextKernel = (): Promise<void> => {
  notebook.useKernel({ id: 'k2', name: 'jax' });
  return Promise.resolve();
};

test('reruns only cells that ran, above the last cell, in the order of the notebook', async () => {
  expect(cellsToRunAgain(['a', 'b', 'c', 'd'], 'c', new Set(['d', 'c', 'a']))).toEqual(['a', 'c']);
  expect(cellsToRunAgain(['a', 'b'], 'gone', new Set(['a']))).toEqual([]);
  notebook.run('d', 1);
  notebook.run('a', 2);
  notebook.run('c', 3);
  expect(runs.begun).toEqual(['d', 'a', 'c']);
  await runs.from('c', nextKernel);
  expect(notebook.ran).toEqual([['a', 'c']]);
  expect(runs.begun).toEqual([]);
});

test('a cell with a number when the page was opened has run, and a running cell counts when its kernel is lost', () => {
  notebook.cell('b').executionCount = 7;
  notebook.cell('a').executionCount = 9;
  notebook.cell('c').executionState = 'running';
  notebook.connectionStatusChanged.emit('connecting');
  notebook.cell('c').executionState = 'idle';
  expect(runs.begun).toEqual(['b', 'a', 'c']);
});

test('while there is no kernel yet, the pending cells stay pending', async () => {
  notebook.run('a', 1);
  notebook.run('b', 2);
  await expect(runs.from('b', () => Promise.reject(new Error('away')))).rejects.toThrow('away');
  expect(notebook.ran).toEqual([]);
  await runs.from('b', nextKernel);
  expect(notebook.ran).toEqual([['a', 'b']]);
});

test('another kernel that the user chose starts without pending cells', () => {
  notebook.run('a', 1);
  notebook.useKernel({ id: 'other', name: 'python3' });
  expect(runs.begun).toEqual([]);
  notebook.run('b', 1);
  expect(runs.begun).toEqual(['b']);
});
