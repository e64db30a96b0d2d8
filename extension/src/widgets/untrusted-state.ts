/**
 * JupyterLab's widget manager makes models of all that a notebook's metadata says of widgets as soon as the notebook is opened, and a model
 * may bring code with it. Of a notebook that nobody here has trusted, it finds nothing there.
 */
import type { INotebookModel } from '@jupyterlab/notebook';

const KEY = 'widgets';

/** For as long as the model exists. What is saved is not touched. */
export function hideUntrustedWidgets(model: INotebookModel): void {
  const getMetadata = model.getMetadata.bind(model) as (key?: string) => unknown;
  model.getMetadata = ((key?: string) =>
    key === KEY && !isTrusted(model) ? undefined : getMetadata(key)) as INotebookModel['getMetadata'];
}

/** As the server has signed it: a file cannot say so itself. Without a cell of code there is no signature to see. */
function isTrusted({ cells }: INotebookModel): boolean {
  const code = [...cells].filter(({ type }) => type === 'code');
  return code.length > 0 && code.every(({ trusted }) => trusted);
}
