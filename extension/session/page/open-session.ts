/** One notebook in the page: its document, its commands, and everything attached to it. */
import { shareHost } from '../../src/widgets/feed.js';
import { Notification } from '@jupyterlab/apputils';
import { MarkdownCell } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import type { LostKernelWatch } from '../../src/unreachable/lost-kernel-watch.js';
import { watchKernel } from '../../src/unreachable/watch-kernel.js';
import { offeredEnvironment } from '../../src/launcher/setup-model.js';
import { floodFactory } from '../../src/reattach/flood-output.js';
import { followNotebook } from '../../src/reattach/follow-notebook.js';
import { GroupWatch } from '../../src/slices/group-watch.js';
import type { NoticePlace } from '../../src/ui/notebook-notice.js';
import { followCellButtons } from '../notebook/cell-buttons.js';
import { addNotebookCommands } from '../notebook/commands.js';
import { Files } from '../notebook/files-of-notebook.js';
import { frameScripts } from '../notebook/framed-output.js';
import { KernelStart } from '../notebook/kernel-start.js';
import { textChanges } from '../notebook/headings.js';
import { type OpenNotebook, openNotebook } from '../notebook/open.js';
import { NotebookSaving } from '../notebook/saving.js';
import { Timing } from '../notebook/timing.js';
import { describeWidgets, LazyWidgets } from '../notebook/widgets.js';
import { type Notice, Notices } from '../notebook/notices.js';
import { addPageCommands, CommandIDs } from './page-commands.js';
import type { SessionPage } from './session-page.js';
import { messageOf, timeText, trans } from '../text.js';

export interface OpenSession extends OpenNotebook {
  readonly saving: NotebookSaving;
  readonly timing: Timing;
  /** Emits when headings may have changed. */
  readonly textChanged: ISignal<unknown, void>;
  readonly notices: Notices;
  /** Null for a reader. */
  readonly lostKernelWatch: LostKernelWatch | null;
}

export type Keyboard = 'jupyterlab' | 'colab';

export function openSession(
  page: SessionPage,
  path: string,
  { keyboard, share }: { readonly keyboard: Keyboard; readonly share: (path: string) => Promise<void> }
): OpenSession {
  const { managers, access, backends, events, commands } = page;
  const { isReadOnly } = access;
  const kernelSettings = (): ServerConnection.ISettings | null => {
    const kernel = context.sessionContext.session?.kernel;
    return kernel ? (backends.backendOf(kernel.id)?.serverSettings ?? null) : null;
  };
  const files = new Files({
    path: () => context.path,
    bytes: address => page.drive.bytes(address),
    openNotebook: address => void commands.execute(CommandIDs.open, { path: address })
  });
  const { context, panel } = openNotebook({ path, managers, isReadOnly, links: files });
  page.drive.kernelSettings = kernelSettings;
  panel.id = 'tpulab-notebook';
  panel.content.rendermime.addFactory(floodFactory(id => backends.backendOf(id)?.serverSettings ?? null));
  const saving = new NotebookSaving(panel, page.store, isReadOnly);
  const notices = new Notices();
  new KernelStart({
    panel,
    managers,
    notices,
    isReadOnly,
    onConnect: name => void commands.execute(CommandIDs.connect, { name }),
    canSetUp: () =>
      backends.remotes.api.environments().then(
        found => offeredEnvironment(found) !== null,
        () => false
      ),
    onSetup: () => void import('./connect.js').then(({ setUp }) => setUp(page))
  });
  if (!isReadOnly) saving.reloaded.connect(() => notices.show(reloadedNotice(context.path)));
  page.current.follow(context.sessionContext);
  addNotebookCommands(commands, { panel, isReadOnly, keyboard });
  addPageCommands(page, { context, panel, saving, share });
  followCellButtons(panel, () => void commands.execute(CommandIDs.interrupt));
  const framed = { panel, files, trust: isReadOnly ? null : () => void commands.execute('notebook:trust') };
  frameScripts(framed);
  let widgets: LazyWidgets | null = null;
  if (isReadOnly) {
    describeWidgets(framed);
  } else {
    shareHost(backends, events);
    const lazy = new LazyWidgets({
      ...framed,
      kernelSettings,
      onDead: () =>
        notices.show({
          id: 'widgets',
          tone: 'info',
          text: trans.__('Widgets are not live: run their cells.'),
          actions: [{ label: trans.__('Close'), onClick: () => notices.clear('widgets') }]
        })
    });
    saving.prepare = () => lazy.save();
    // A picture that was missing when the text was rendered is loaded again after a cell has run, because the cell may have created it.
    NotebookActions.executed.connect((_, { notebook }) => {
      for (const cell of notebook === panel.content ? notebook.widgets : []) {
        if (cell instanceof MarkdownCell && cell.node.querySelector('img[src="data:,"]')) {
          cell.rendered = false;
          cell.rendered = true;
        }
      }
    });
    widgets = lazy;
  }
  followNotebook(panel, {
    backends,
    events,
    ...(isReadOnly && { cellsReloaded: saving.reloaded }),
    showUnplaced: (_, message, { command }) => {
      // A reader cannot act on it, and has no command line there.
      if (!isReadOnly) {
        notices.show({
          id: 'unplaced',
          tone: 'warning',
          text: trans.__('%1 "%2" prints it.', message, command),
          actions: []
        });
      }
    },
    ...(widgets && { loadWidgets: () => widgets.load() }),
    actions: isReadOnly ? null : NotebookActions,
    trust: ({ content }) => NotebookActions.trust(content)
  });
  const lostKernelWatch = isReadOnly ? null : watchLosses(page, { context, panel, notices });
  // JupyterLab's packages report some things through notifications, which this page does not show by itself.
  Notification.manager.changed.connect((_, { type, notification }) => {
    if (type === 'added' && notification.type !== 'in-progress') {
      const tone =
        notification.type === 'error' ? 'error' : notification.type === 'warning' ? 'warning' : 'info';
      notices.show({ id: notification.id, tone, text: notification.message, actions: [] });
    }
  });
  void import('./run-notices.js').then(({ followRuns }) => followRuns(page));
  void context.initialize(false).catch((error: unknown) => {
    saving.fail();
    notices.show({ id: 'load', tone: 'error', text: messageOf(error), actions: [] });
  });
  return {
    ...{ context, panel, saving, notices, lostKernelWatch },
    timing: new Timing(panel),
    textChanged: textChanges(context.model.cells)
  };
}

function reloadedNotice(path: string): Notice {
  const at = timeText(Date.now());
  const name = path.split('/').at(-1) ?? '';
  return {
    id: 'reloaded',
    tone: 'success',
    text: trans.__('Reloaded. %1 changed on disk at %2. You had no unsaved edits.', name, at),
    actions: []
  };
}

/** Reports that the kernel or a host of its slice was lost, and offers recovery. */
function watchLosses(
  { backends, managers, commands }: SessionPage,
  { context, panel, notices }: Pick<OpenSession, 'context' | 'panel' | 'notices'>
): LostKernelWatch {
  const placeOf = (id: string): Pick<NoticePlace, 'show' | 'clear'> => ({
    show: ({ text, actions }) => notices.show({ id, tone: 'error', text, actions }),
    clear: () => notices.clear(id)
  });
  const group = new GroupWatch({
    notebook: panel.content,
    sessionContext: context.sessionContext,
    executed: NotebookActions.executed,
    runCells: NotebookActions.runCells,
    notice: placeOf('slice')
  });
  panel.disposed.connect(() => group.dispose());
  return watchKernel(panel, {
    ...{ backends, commands, sessions: managers.sessions, actions: NotebookActions },
    placeOf,
    isCurrent: () => true,
    onShow: name => void commands.execute(CommandIDs.connect, { name })
  });
}
