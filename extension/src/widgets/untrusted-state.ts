/**
 * JupyterLab's widget manager creates models of all widget state in a notebook's metadata as soon as the notebook is opened, and a model
 * may contain code. For an untrusted notebook, it finds no state there.
 */
import type { INotebookModel } from '@jupyterlab/notebook';

const KEY = 'widgets';

/** For as long as the model exists. Saved content is unchanged. */
export function hideUntrustedWidgets(model: INotebookModel): void {
  const getMetadata = model.getMetadata.bind(model) as (key?: string) => unknown;
  model.getMetadata = ((key?: string) =>
    key === KEY && !isTrusted(model) ? undefined : getMetadata(key)) as INotebookModel['getMetadata'];
}

/** According to the server's signature: a file cannot set this itself. Without a code cell there is no visible signature. */
function isTrusted({ cells }: INotebookModel): boolean {
  const code = [...cells].filter(({ type }) => type === 'code');
  return code.length > 0 && code.every(({ trusted }) => trusted);
}
