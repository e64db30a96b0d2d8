/** Says above a notebook how its kernel has ended where the bridge has restarted it, unasked. */
import { URLExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IBridgeBackends } from '../backends/tokens.js';
import { NoticePlace } from '../ui/notebook-notice.js';

export function followKernelEnd(
  panel: NotebookPanel,
  backends: Pick<IBridgeBackends, 'backendOf'>,
  trans: TranslationBundle
): void {
  const notice = new NoticePlace(panel.contentHeader, trans);
  const settingsOf = (id: string | undefined): ServerConnection.ISettings | null =>
    id === undefined ? null : (backends.backendOf(id)?.serverSettings ?? null);
  const { sessionContext } = panel;
  // JupyterLab's own dialog holds up the page, and only says that the kernel "appears to have died".
  Object.defineProperty(panel, '_autorestarting', {
    get: () => settingsOf(sessionContext.session?.kernel?.id) !== null,
    set: () => {
      // Ours says more.
    }
  });
  sessionContext.statusChanged.connect((_, status) => {
    const id = sessionContext.session?.kernel?.id;
    const settings = settingsOf(id);
    if (status !== 'autorestarting' || id === undefined || settings === null) return;
    void endOf(id, settings).then(end => {
      const why = end === null ? trans.__('The kernel ended.') : trans.__('The kernel ended: %1.', end);
      const kept = trans.__('It was restarted. Outputs are kept, variables are lost.');
      notice.say({ text: `${why} ${kept}`, actions: [] });
    });
  });
}

/** Never rejects. */
async function endOf(id: string, settings: ServerConnection.ISettings): Promise<string | null> {
  try {
    const url = URLExt.join(settings.baseUrl, 'api/kernels', encodeURIComponent(id));
    const kernel = (await (await ServerConnection.makeRequest(url, {}, settings)).json()) as {
      reason?: string;
      last_end?: string;
    };
    return kernel.reason ?? kernel.last_end ?? null;
  } catch {
    return null;
  }
}
