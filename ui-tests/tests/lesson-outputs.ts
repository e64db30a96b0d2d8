/** Runs the getting-started notebook, with the expected outputs of its cells: the same on every machine. */

import { expect, type Page } from '@playwright/test';
import { readCells } from './lab-page.js';
import type { CellOutputs } from './notebook-file.js';

export const EPOCHS = 10;
export const STEPS_PER_EPOCH = 23;

/** Runs the current notebook from top to bottom; resolves when every cell has been run. */
export async function runLesson(page: Page): Promise<void> {
  // Galata's own run has the timeout of a click; training on a busy machine takes longer.
  await page.evaluate(() => void window.jupyterapp.commands.execute('notebook:run-all-cells'));
  const open = async (): Promise<string[]> => {
    const cells = await readCells(page);
    // Cells after an error are not run, regardless of the timeout.
    expect(cells.flatMap(({ errors }) => errors)).toEqual([]);
    return cells.filter(({ executionCount }) => executionCount === null).map(({ id }) => id);
  };
  await expect.poll(open, { timeout: 240_000 }).toEqual([]);
}

export function expectLesson(all: readonly CellOutputs[]): void {
  const cells = new Map(all.map(cell => [cell.id, cell]));
  const text = (id: string): string => cells.get(id)?.text ?? '';
  expect([...cells.values()].flatMap(({ errors }) => errors)).toEqual([]);
  expect([...cells.values()].filter(({ executionCount }) => executionCount === null)).toEqual([]);
  expect(text('devices')).toMatch(/^8 XLA devices, JAX [\d.]+\n( {2}device \d+: cpu \(cpu\)\n){8}$/);
  expect(text('tensors')).toContain('[[1. 1. 1.]\n [1. 1. 1.]\n [1. 1. 1.]]');
  expect(text('arithmetic')).toContain('a * b = [[10.0, 40.0], [90.0, 160.0]]');
  expect(text('matmul')).toBe('[[20. 23. 26. 29.]\n [56. 68. 80. 92.]]\n(2, 4)\n');
  const [, byXla, byHand] = /by XLA +(\S+)\nby hand (\S+)/.exec(text('conv')) ?? [];
  expect(Math.abs(Number(byXla) - Number(byHand))).toBeLessThan(2e-4);
  expect(text('copies')).toContain('every element is 1024.0');
  expect(text('linear')).toContain('[[15. 15.]\n [18. 18.]\n [21. 21.]\n [24. 24.]\n [27. 27.]]');
  expect(text('lenet')).toContain('parameters: 81194\nlogits (1, 10)');
  expect(text('first-epoch').match(/^step .* (64|29) images/gm)).toHaveLength(3);
  expect(text('training').match(/^epoch \d+: mean loss [\d.]+$/gm)).toHaveLength(EPOCHS);
  expect(text('training').trim().split('\n')).toHaveLength(EPOCHS);
  expect(Number(/^([\d.]+)%/.exec(text('accuracy'))?.[1])).toBeGreaterThan(90);
  expect(cells.get('digits')?.mimeTypes).toContain('image/png');
  expect(cells.get('figure')?.mimeTypes).toContain('image/png');
}
