/** The commands of the page: the kernel, the file, the connection. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { addressOf, isBrowserFile, runsAddress, withToken } from './address.js';
import { download } from '../../src/platform/download.js';
import { deleteFile, moveFile, renameFile } from './file-actions.js';
import { sure } from '../../src/ui/sure.js';
import type { OpenNotebook } from '../notebook/open.js';
import { runAll } from '../notebook/commands.js';
import type { NotebookSaving } from '../notebook/saving.js';
import type { SessionPage } from './session-page.js';
import { CommandIDs as SharedIDs } from '../../src/commands.js';
import { trans } from '../text.js';

export const CommandIDs = {
  save: 'docmanager:save',
  open: 'docmanager:open',
  download: 'docmanager:download',
  rename: 'docmanager:rename',
  move: 'tpulab:move',
  remove: 'tpulab:delete',
  interrupt: 'notebook:interrupt-kernel',
  restart: 'notebook:restart-kernel',
  restartAndRun: 'notebook:restart-run-all',
  shutDown: 'notebook:shutdown-kernel',
  change: 'notebook:change-kernel',
  share: 'tpulab:share',
  runs: SharedIDs.openRuns,
  allowNotices: SharedIDs.allowNotices,
  connect: 'tpulab:connect',
  reconnect: 'tpulab:reconnect'
} as const;

/** Commands of the palette, in its order. */
export const PALETTE: readonly (readonly [group: string, ...ids: string[]])[] = [
  [
    trans.__('Kernel'),
    CommandIDs.interrupt,
    CommandIDs.restart,
    CommandIDs.restartAndRun,
    CommandIDs.shutDown,
    CommandIDs.change
  ],
  [
    trans.__('File'),
    CommandIDs.save,
    CommandIDs.rename,
    CommandIDs.move,
    CommandIDs.remove,
    CommandIDs.download
  ],
  [trans.__('TPULab'), CommandIDs.runs, CommandIDs.allowNotices],
  [trans.__('Connection'), CommandIDs.connect, CommandIDs.reconnect]
];

interface Parts extends OpenNotebook {
  readonly saving: NotebookSaving;
  /** Shows the dialog that shares a notebook. */
  readonly share: (path: string) => Promise<void>;
}

export function addPageCommands(page: SessionPage, parts: Parts): void {
  const { context, panel, saving } = parts;
  const { commands, access } = page;
  const { sessionContext } = context;
  const mayChange = (): boolean => !access.isReadOnly;
  const hasKernel = (): boolean => mayChange() && sessionContext.session?.kernel != null;
  // Files opened through the browser cannot be renamed, and a reader gets a file from the gateway.
  const ofServer = {
    isEnabled: () => mayChange() && !isBrowserFile(context.path),
    isVisible: mayChange
  };
  commands.addCommand(CommandIDs.save, {
    label: trans.__('Save'),
    isEnabled: mayChange,
    execute: () => saving.save()
  });
  commands.addKeyBinding({ command: CommandIDs.save, keys: ['Accel S'], selector: 'body' });
  commands.addCommand(CommandIDs.open, {
    label: trans.__('Open a notebook'),
    execute: ({ path }) => {
      if (typeof path === 'string') goTo(page, addressOf(window, path));
    }
  });
  commands.addCommand(CommandIDs.runs, {
    label: trans.__('Open the runs'),
    isEnabled: mayChange,
    isVisible: mayChange,
    execute: () => goTo(page, runsAddress(window))
  });
  commands.addCommand(CommandIDs.allowNotices, {
    label: trans.__('Allow browser notifications'),
    execute: async () => (await import('./run-notices.js')).allow()
  });
  commands.addCommand(CommandIDs.download, {
    label: trans.__('Download'),
    execute: () => download(context.path, saving.text(), 'application/x-ipynb+json')
  });
  commands.addCommand(CommandIDs.rename, {
    label: trans.__('Rename…'),
    ...ofServer,
    execute: () => relocate(page, parts, renameFile)
  });
  commands.addCommand(CommandIDs.move, {
    label: trans.__('Move…'),
    ...ofServer,
    execute: () => relocate(page, parts, moveFile)
  });
  commands.addCommand(CommandIDs.remove, {
    label: trans.__('Delete…'),
    ...ofServer,
    execute: () => remove(page, parts)
  });
  commands.addCommand(CommandIDs.share, {
    label: trans.__('Share a read-only link…'),
    ...ofServer,
    execute: async () => {
      // The link opens the file, so it is saved first.
      await saving.save();
      await parts.share(context.path);
    }
  });
  commands.addCommand(CommandIDs.interrupt, {
    label: trans.__('Interrupt the kernel'),
    isEnabled: hasKernel,
    execute: () => sessionContext.session?.kernel?.interrupt()
  });
  commands.addKeyBinding({
    command: CommandIDs.interrupt,
    keys: ['I', 'I'],
    selector: '.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus'
  });
  commands.addCommand(CommandIDs.restart, {
    label: trans.__('Restart the kernel…'),
    isEnabled: hasKernel,
    execute: () => restart(panel)
  });
  commands.addKeyBinding({
    command: CommandIDs.restart,
    keys: ['0', '0'],
    selector: '.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus'
  });
  commands.addCommand(CommandIDs.restartAndRun, {
    label: trans.__('Restart and run all…'),
    isEnabled: hasKernel,
    execute: async () => {
      if (await restart(panel)) await runAll(panel.content, sessionContext);
    }
  });
  commands.addCommand(CommandIDs.shutDown, {
    label: trans.__('Shut the kernel down…'),
    isEnabled: hasKernel,
    execute: async () => {
      if (
        await sure(
          trans.__('Shut the kernel down?'),
          trans.__('Its variables are lost. Outputs stay in the notebook.'),
          trans.__('Shut down')
        )
      ) {
        await sessionContext.shutdown();
      }
    }
  });
  commands.addCommand(CommandIDs.connect, {
    label: trans.__('Connect to a TPU…'),
    isEnabled: mayChange,
    execute: async ({ name }) =>
      (await import('./connect.js')).connect(page, parts, typeof name === 'string' ? name : null)
  });
  commands.addCommand(CommandIDs.reconnect, {
    label: trans.__('Reconnect now'),
    execute: () => page.reconnectNow()
  });
  for (const signal of [
    sessionContext.statusChanged,
    sessionContext.kernelChanged,
    sessionContext.sessionChanged
  ]) {
    signal.connect(() => commands.notifyCommandChanged());
  }
}

/** The tab stores the token. If it cannot, the token goes into the address. */
export function goTo(page: SessionPage, address: string): void {
  window.location.assign(withToken(window, address, page.token));
}

/** Saves first, so that the file on disk matches the page before it is renamed or moved. Document and kernel follow it. */
async function relocate(
  page: SessionPage,
  { context, saving }: Parts,
  action: (page: SessionPage, path: string) => Promise<string | null>
): Promise<void> {
  await saving.save();
  if ((await action(page, context.path)) !== null) {
    window.history.replaceState(null, '', addressOf(window, context.path));
  }
}

async function remove(page: SessionPage, { context, saving }: Parts): Promise<void> {
  if (await deleteFile(page, context.path)) {
    // No pending save may create the file again.
    saving.dispose();
    context.model.dirty = false;
    window.location.assign(document.baseURI);
  }
}

/** True when it has been restarted. */
async function restart({ sessionContext }: NotebookPanel): Promise<boolean> {
  const kernel = sessionContext.session?.kernel;
  if (!kernel) return false;
  const agreed = await sure(
    trans.__('Restart the kernel?'),
    trans.__('Its variables are lost. Outputs stay in the notebook.'),
    trans.__('Restart')
  );
  if (agreed) await sessionContext.restartKernel();
  return agreed;
}
