/** One notebook in the page: its document, its commands, and everything that follows it. */
import { Notification } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';
import { followNotebook } from '../../src/reattach/follow-notebook.js';
import { addNotebookCommands } from '../notebook/commands.js';
import { frameScripts } from '../notebook/framed-output.js';
import { LookingOn } from '../notebook/look-on.js';
import { type OpenNotebook, openNotebook } from '../notebook/open.js';
import { Saving } from '../notebook/saving.js';
import { Timing } from '../notebook/timing.js';
import { describeWidgets, followWidgets } from '../notebook/widgets.js';
import { Notices } from './notices.js';
import { addPageCommands } from './page-commands.js';
import { shareWidgetHost } from './widget-host.js';
import type { SessionPage } from './session-page.js';

export interface OpenSession extends OpenNotebook {
  readonly saving: Saving;
  readonly timing: Timing;
  readonly notices: Notices;
}

export type Keyboard = 'jupyterlab' | 'colab';

export function openSession(page: SessionPage, path: string, keyboard: Keyboard): OpenSession {
  const { managers, access, backends, events, trans, commands } = page;
  const { isReadOnly } = access;
  const { context, panel } = openNotebook({ path, managers, isReadOnly });
  panel.id = 'tpulab-notebook';
  const saving = new Saving(context, page.store, isReadOnly);
  const notices = new Notices();
  page.current.follow(context.sessionContext);
  addNotebookCommands(commands, { panel, isReadOnly, keyboard });
  addPageCommands(page, { context, panel, saving });
  frameScripts(panel, isReadOnly ? null : () => void commands.execute('notebook:trust'));
  const widgets = isReadOnly ? null : followWidgets(panel);
  if (widgets) {
    shareWidgetHost(page);
  } else {
    describeWidgets(panel);
  }
  const looksOn = isReadOnly ? new LookingOn({ context, panel }, page.drive, managers) : null;
  followNotebook(panel, {
    backends,
    events,
    ...(looksOn && { looksOn: looksOn.changed }),
    tellUnplaced: (_, message, { command }) => {
      // A reader can do nothing about it, and has no command line there.
      if (!isReadOnly) {
        notices.say({
          id: 'unplaced',
          tone: 'warning',
          text: `${message} "${command}" prints it.`,
          actions: []
        });
      }
    },
    ...(widgets && { loadWidgets: () => widgets.load() }),
    trust: ({ content }) => NotebookActions.trust(content),
    trans
  });
  // JupyterLab's packages say some things through notifications, which have no place of their own here.
  Notification.manager.changed.connect((_, { type, notification }) => {
    if (type === 'added' && notification.type !== 'in-progress') {
      const tone =
        notification.type === 'error' ? 'error' : notification.type === 'warning' ? 'warning' : 'info';
      notices.say({ id: notification.id, tone, text: notification.message, actions: [] });
    }
  });
  void context.initialize(false).catch(() => undefined);
  return { context, panel, saving, notices, timing: new Timing(panel) };
}
