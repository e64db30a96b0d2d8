// @ts-check
import { describe, expect, it } from 'vitest';
import { findForbidden, findNotebookOutputs } from './tracked-files.mjs';

describe('tracked files', () => {
  it('lets ordinary text pass', () => {
    expect(findForbidden('a.md', 'see ~/.local/state, /usr/bin/chromium and /home/you/notes')).toEqual([]);
  });

  it('finds paths of one machine and registry addresses, with their line', () => {
    expect(findForbidden('a.ts', "ok\nconst p = '/home/jane/work';")).toEqual([
      { path: 'a.ts', line: 2, what: 'a path of one machine' }
    ]);
    expect(findForbidden('x.lock', '"resolved": "https://registry.npmjs.org/x"')).toHaveLength(1);
  });

  it('finds outputs and execution counts of notebooks', () => {
    const cell = { cell_type: 'code', outputs: [], execution_count: null };
    const notebook = {
      cells: [cell, { ...cell, outputs: [{}] }, { ...cell, execution_count: 3 }, { cell_type: 'markdown' }]
    };
    expect(findNotebookOutputs('a.ipynb', JSON.stringify(notebook)).map(found => found.line)).toEqual([2, 3]);
  });
});
