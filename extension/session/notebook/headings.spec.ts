// @vitest-environment jsdom
import type { ICodeCellModel } from '@jupyterlab/cells';
import { expect, it, vi } from 'vitest';

// jsdom lacks these, and JupyterLab's widgets need them at load.
vi.hoisted(() =>
  Object.assign(globalThis, {
    DragEvent: class extends Event {},
    matchMedia: () => ({ addListener: () => undefined, addEventListener: () => undefined })
  })
);

const { NotebookModel } = await import('@jupyterlab/notebook/lib/model.js');
const { inMarkdown, textChanges } = await import('./headings.js');

it('finds the headings of a text cell, and none in its code blocks', () => {
  expect(inMarkdown('# One `x`\n```\n# a comment\n```\n## [Two](https://example.org) ##')).toEqual([
    { level: 1, text: 'One x' },
    { level: 2, text: 'Two' }
  ]);
});

// A flood of outputs must not redraw the table of contents at each frame.
it('reports that headings may have changed for text cells and the list of cells, not for outputs and code', () => {
  const model = new NotebookModel();
  const markdown = { cell_type: 'markdown', metadata: {}, source: '# One' };
  const code = { cell_type: 'code', metadata: {}, source: '', outputs: [], execution_count: null };
  model.sharedModel.insertCells(0, [markdown, code]);
  let [changes, contentChanges] = [0, 0];
  textChanges(model.cells).connect(() => void changes++);
  model.contentChanged.connect(() => void contentChanges++);
  const changed = (action: () => void): boolean => {
    const before = changes;
    action();
    return changes > before;
  };
  const cell = model.cells.get(1);
  if (cell.type !== 'code') throw new Error('the second cell is code');
  const { outputs } = cell as ICodeCellModel;
  for (let line = 0; line < 50; line++)
    expect(changed(() => outputs.add({ output_type: 'stream', name: 'stdout', text: `${line}\n` }))).toBe(
      false
    );
  expect(changed(() => cell.sharedModel.setSource('x = 1'))).toBe(false);
  expect(contentChanges).toBeGreaterThan(1);
  expect(changed(() => model.cells.get(0).sharedModel.setSource('# Two'))).toBe(true);
  expect(changed(() => model.sharedModel.insertCell(2, markdown))).toBe(true);
  expect(changed(() => model.cells.get(2).sharedModel.setSource('## Three'))).toBe(true);
  expect(changed(() => model.sharedModel.moveCell(2, 0))).toBe(true);
  expect(changed(() => model.sharedModel.deleteCell(0))).toBe(true);
  model.dispose();
});
