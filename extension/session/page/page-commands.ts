/** The commands of the page: the kernel, the file, the connection. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import { addressOf, isBrowserFile } from './address.js';
import { deleteFile, moveFile, renameFile, sure } from './file-actions.js';
import { notebookText } from '../files/notebook-text.js';
import type { OpenNotebook } from '../notebook/open.js';
import type { Saving } from '../notebook/saving.js';
import type { SessionPage } from './session-page.js';

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
  connect: 'tpulab:connect',
  reconnect: 'tpulab:reconnect'
} as const;

/** Those of the palette, in its order. */
export const PALETTE: readonly (readonly [group: string, ...ids: string[]])[] = [
  [
    'Kernel',
    CommandIDs.interrupt,
    CommandIDs.restart,
    CommandIDs.restartAndRun,
    CommandIDs.shutDown,
    CommandIDs.change
  ],
  ['File', CommandIDs.save, CommandIDs.rename, CommandIDs.move, CommandIDs.remove, CommandIDs.download],
  ['Connection', CommandIDs.connect, CommandIDs.reconnect]
];

interface Parts extends OpenNotebook {
  readonly saving: Saving;
}

export function addPageCommands(page: SessionPage, parts: Parts): void {
  const { context, panel, saving } = parts;
  const { commands, access } = page;
  const { sessionContext } = context;
  const mayChange = (): boolean => !access.isReadOnly;
  const hasKernel = (): boolean => mayChange() && sessionContext.session?.kernel != null;
  commands.addCommand(CommandIDs.save, {
    label: 'Save',
    isEnabled: mayChange,
    execute: () => saving.save()
  });
  commands.addKeyBinding({ command: CommandIDs.save, keys: ['Accel S'], selector: 'body' });
  commands.addCommand(CommandIDs.open, {
    label: 'Open a notebook',
    execute: ({ path }) => {
      if (typeof path === 'string') {
        window.location.assign(
          `${addressOf(window, path)}#${new URLSearchParams({ token: page.token }).toString()}`
        );
      }
    }
  });
  commands.addCommand(CommandIDs.download, {
    label: 'Download',
    execute: () => download(context.path, notebookText(context.model.toJSON()))
  });
  commands.addCommand(CommandIDs.rename, {
    label: 'Rename…',
    // The browser lets nobody rename its files.
    isEnabled: () => mayChange() && !isBrowserFile(context.path),
    isVisible: mayChange,
    execute: () => relocate(page, parts, renameFile)
  });
  commands.addCommand(CommandIDs.move, {
    label: 'Move…',
    isEnabled: () => mayChange() && !isBrowserFile(context.path),
    isVisible: mayChange,
    execute: () => relocate(page, parts, moveFile)
  });
  commands.addCommand(CommandIDs.remove, {
    label: 'Delete…',
    isEnabled: () => mayChange() && !isBrowserFile(context.path),
    isVisible: mayChange,
    execute: () => remove(page, parts)
  });
  commands.addCommand(CommandIDs.share, {
    label: 'Share a view…',
    // A reader gets the file from the gateway.
    isEnabled: () => mayChange() && !isBrowserFile(context.path),
    isVisible: mayChange,
    execute: async () => {
      // What the reader opens is the file.
      await saving.save();
      await (await import('../shell/share.js')).showShareDialog(page, context.path);
    }
  });
  commands.addCommand(CommandIDs.interrupt, {
    label: 'Interrupt the kernel',
    isEnabled: hasKernel,
    execute: () => sessionContext.session?.kernel?.interrupt()
  });
  commands.addKeyBinding({
    command: CommandIDs.interrupt,
    keys: ['I', 'I'],
    selector: '.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus'
  });
  commands.addCommand(CommandIDs.restart, {
    label: 'Restart the kernel…',
    isEnabled: hasKernel,
    execute: () => restart(panel)
  });
  commands.addKeyBinding({
    command: CommandIDs.restart,
    keys: ['0', '0'],
    selector: '.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus'
  });
  commands.addCommand(CommandIDs.restartAndRun, {
    label: 'Restart and run all…',
    isEnabled: hasKernel,
    execute: async () => {
      if (await restart(panel)) {
        await NotebookActions.runAll(panel.content, sessionContext);
      }
    }
  });
  commands.addCommand(CommandIDs.shutDown, {
    label: 'Shut the kernel down…',
    isEnabled: hasKernel,
    execute: async () => {
      if (
        await sure(
          'Shut the kernel down?',
          'Its variables are lost. Outputs stay in the notebook.',
          'Shut down'
        )
      ) {
        await sessionContext.shutdown();
      }
    }
  });
  commands.addCommand(CommandIDs.connect, {
    label: 'Connect to a TPU…',
    isEnabled: mayChange,
    execute: async () => (await import('./connect.js')).connect(page, { context, panel })
  });
  commands.addCommand(CommandIDs.reconnect, { label: 'Reconnect now', execute: () => page.reconnectNow() });
  for (const signal of [
    sessionContext.statusChanged,
    sessionContext.kernelChanged,
    sessionContext.sessionChanged
  ]) {
    signal.connect(() => commands.notifyCommandChanged());
  }
}

/** Saves first, so that it is the file as it is shown that is renamed or moved. Document and kernel follow it. */
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
    // Nothing may write it again.
    saving.dispose();
    context.model.dirty = false;
    window.location.assign(document.baseURI);
  }
}

/** True when it has been restarted. */
async function restart({ sessionContext }: NotebookPanel): Promise<boolean> {
  const kernel = sessionContext.session?.kernel;
  if (!kernel) {
    return false;
  }
  const agreed = await sure(
    'Restart the kernel?',
    'Its variables are lost. Outputs stay in the notebook.',
    'Restart'
  );
  if (agreed) {
    await sessionContext.restartKernel();
  }
  return agreed;
}

function download(path: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/x-ipynb+json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = path.split('/').at(-1) ?? path;
  link.click();
  URL.revokeObjectURL(url);
}
