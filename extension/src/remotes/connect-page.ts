/** The dialog's interface to Lab: the chosen notebook, running it on a remote, and syncing a folder. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import { remotePlace } from '../backends/spec-names.js';
import { CommandIDs } from '../commands.js';
import type { IConnectPage } from './dialog/remote-props.js';
import { waitForSpec } from './open-notebook.js';
import type { IBridgeBackends } from '../backends/tokens.js';

/** A remote that the hub reports as connected is one or two round trips away. */
const SERVING_WAIT_MS = 30_000;
/** The first lesson, in the current folder. */
const LESSON = '00-getting-started.ipynb';

export interface IConnectPageParts {
  readonly app: JupyterFrontEnd;
  readonly backends: IBridgeBackends;
  readonly notebooks: INotebookTracker | null;
  /** Folder of the file browser. */
  readonly folder: () => string;
  readonly trans: TranslationBundle;
}

export function connectPage({ app, backends, notebooks, folder, trans }: IConnectPageParts): IConnectPage {
  const { commands, serviceManager, shell } = app;
  const shown = (): INotebookTracker['currentWidget'] => {
    const current = notebooks?.currentWidget ?? null;
    return current !== null && current === shell.currentWidget ? current : null;
  };
  return {
    folder,
    sync: (name, synced) => void commands.execute(CommandIDs.sync, { name, folder: synced }),
    notebook: async () => {
      const current = shown();
      if (current !== null) {
        return current.context.path;
      }
      const lesson = folder() === '' ? LESSON : `${folder()}/${LESSON}`;
      const found = await serviceManager.contents.get(lesson, { content: false }).catch(() => null);
      return found === null ? null : lesson;
    },
    open: async (remote: Remote, path: string | null) => {
      await backends.gateway(remotePlace(remote.name))?.serving(SERVING_WAIT_MS);
      const name = await waitForSpec(
        remote,
        serviceManager.kernelspecs,
        SERVING_WAIT_MS,
        trans.__('%1 lists no kernels; see its log.', remote.name)
      );
      const current = shown();
      if (current !== null && current.context.path === path) {
        await current.sessionContext.changeKernel({ name });
        shell.activateById(current.id);
      } else if (path === null) {
        await commands.execute('notebook:create-new', { cwd: folder(), kernelName: name });
      } else {
        await commands.execute('docmanager:open', { path, factory: 'Notebook', kernel: { name } });
      }
    }
  };
}
