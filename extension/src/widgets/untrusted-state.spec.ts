import type { INotebookModel } from '@jupyterlab/notebook';
import { describe, expect, it } from 'vitest';
import { hideUntrustedWidgets } from './untrusted-state.js';

/** JupyterLab turns the widget state of a foreign notebook into models, and runs their code, as soon as it is opened. */
const WIDGETS = { 'application/vnd.jupyter.widget-state+json': { state: { a: { model_name: 'AnyModel' } } } };

function notebookOf(...trusted: boolean[]): INotebookModel {
  const metadata: Record<string, unknown> = { widgets: WIDGETS, other: 1 };
  const model = {
    cells: trusted.map(each => ({ type: 'code', trusted: each })),
    getMetadata: (key?: string) => (key === undefined ? metadata : metadata[key])
  } as unknown as INotebookModel;
  hideUntrustedWidgets(model);
  return model;
}

describe('the state of widgets in a notebook', () => {
  it('is visible to JupyterLab once every cell is trusted', () => {
    const notebook = notebookOf(true, false);
    expect(notebook.getMetadata('widgets')).toBeUndefined();
    for (const cell of notebook.cells) (cell as { trusted: boolean }).trusted = true;
    expect(notebook.getMetadata('widgets')).toEqual(WIDGETS);
  });

  it('is hidden in a notebook without code, which no signature covers', () => {
    expect(notebookOf().getMetadata('widgets')).toBeUndefined();
  });

  it('stays in the file, and hides nothing else', () => {
    const notebook = notebookOf(false);
    expect(notebook.getMetadata('other')).toBe(1);
    expect((notebook.getMetadata as () => unknown)()).toMatchObject({ widgets: WIDGETS });
  });
});
