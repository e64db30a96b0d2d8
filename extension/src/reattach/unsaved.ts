/**
 * A notice above a notebook that JupyterLab could not save: the reason, and a way to save its content. JupyterLab's own Download has
 * the file on disk, and its own dialog offers no other action.
 */
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { download } from '../platform/download.js';
import { NoticePlace } from '../ui/notebook-notice.js';

export function offerCopies(panel: NotebookPanel, trans: TranslationBundle, saveAs: () => void): void {
  const { context } = panel;
  const notice = new NoticePlace(panel.contentHeader, trans);
  let isSaving = false;
  let why = '';
  const dialogs = context as { readonly _handleError?: (error: Error, title: string) => Promise<void> };
  const show = dialogs._handleError;
  if (show !== undefined) {
    const _handleError: typeof show = async (error, title) => {
      if (isSaving) why = error.message.replace(/[^.?!]$/, '$&.');
      else await show.call(context, error, title);
    };
    Object.assign(context, { _handleError });
  }
  context.saveState.connect((_, state) => {
    isSaving = state === 'started';
    if (state === 'completed') notice.clear();
    if (state !== 'failed') return;
    const name = context.localPath;
    const stored = trans.__('All cells and outputs are still in this page.');
    notice.show({
      text: [trans.__('%1 is not saved.', name), why, stored].join(' '),
      actions: [
        { label: trans.__('Save elsewhere…'), stays: true, onClick: saveAs },
        {
          label: trans.__('Download'),
          stays: true,
          onClick: () => download(name, JSON.stringify(context.model.toJSON(), null, 1))
        }
      ]
    });
  });
}
