/** Requests to the runs of this page's kernel: one model per kernel, shared by step bar and panel. */
import type { KernelTelemetry } from '../../src/events/kernel-telemetry.js';
import type { ControlModel } from '../../src/runs/model.js';
import { PageActions, type PanelActions } from '../../src/panel/actions.js';
import { sure } from '../../src/ui/sure.js';
import { showErrorMessage } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { SessionPage } from '../page/session-page.js';

const actions = new WeakMap<SessionPage, PanelActions>();
/** The notebook of the page, for pictures inserted into it. */
let shown: NotebookPanel | null = null;

export function showNotebook(panel: NotebookPanel): void {
  shown = panel;
}

/** A reader cannot steer: controls are shown read-only, and the list of stored runs is not available. */
class ReaderActions extends PageActions {
  override controlOf(): null {
    return null;
  }
  override storedRuns(): null {
    return null;
  }
  /** A check runs the notebook. */
  override preflight(): null {
    return null;
  }
}

export function actionsOf(page: SessionPage): PanelActions {
  let made = actions.get(page);
  if (!made) {
    const { commands, current: currentKernel, events, managers } = page;
    const Actions = page.access.isReadOnly ? ReaderActions : PageActions;
    made = new Actions({
      sessions: managers.sessions,
      kernels: managers.kernels,
      openDocument: path => void commands.execute('docmanager:open', { path }),
      currentKernel,
      events,
      api: page.backends.remotes.api,
      notebooks: {
        get currentWidget() {
          return shown;
        },
        find: matches => (shown !== null && matches(shown) ? shown : undefined)
      },
      confirm: sure,
      showFailure: (title, why) => void showErrorMessage(title, why)
    });
    actions.set(page, made);
  }
  return made;
}

export function controlOf(page: SessionPage, kernel: KernelTelemetry): ControlModel | null {
  return actionsOf(page).controlOf(kernel);
}
