/** Above a notebook that JupyterLab could not save: how its content is saved all the same. JupyterLab's own Download is the file on the disk. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { download } from '../platform/download.js';
import { NoticePlace } from '../ui/notebook-notice.js';

export function offerCopies(panel: NotebookPanel, trans: TranslationBundle, saveAs: () => void): void {
  const { context } = panel;
  const notice = new NoticePlace(panel.contentHeader, trans);
  context.saveState.connect((_, state) => {
    if (state === 'completed') notice.clear();
    if (state !== 'failed') return;
    const name = context.localPath;
    notice.say({
      text: trans.__('%1 is not saved. All cells and outputs are still in this page.', name),
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
