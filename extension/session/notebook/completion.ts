/** Completion from the kernel and from the notebook itself, loaded with the first cell that is written in. */
import {
  CompletionProviderManager,
  ContextCompleterProvider,
  KernelCompleterProvider
} from '@jupyterlab/completer';
import '@jupyterlab/completer/style/index.js';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';

/** A kernel that is busy answers late, or on another thread. */
const TIMEOUT_MS = 1_000;
const READY_TO_COMPLETE = '.jp-Notebook.jp-mod-editMode .jp-mod-completer-enabled';
const OPEN = '.jp-Notebook .jp-mod-completer-active';

export function addCompletion(panel: NotebookPanel, commands: CommandRegistry): void {
  const manager = new CompletionProviderManager();
  manager.registerProvider(new ContextCompleterProvider());
  manager.registerProvider(new KernelCompleterProvider());
  manager.activateProvider(['CompletionProvider:context', 'CompletionProvider:kernel']);
  manager.setTimeout(TIMEOUT_MS);
  manager.setShowDocumentationPanel(true);
  const update = (): void => {
    const { activeCell } = panel.content;
    void manager.updateCompleter({
      editor: activeCell?.editor ?? null,
      session: panel.sessionContext.session,
      widget: panel,
      sanitizer: panel.content.rendermime.sanitizer
    });
  };
  panel.content.activeCellChanged.connect((_, cell) => {
    update();
    void cell?.ready.then(() => {
      if (!panel.isDisposed && panel.content.activeCell === cell) {
        update();
      }
    });
  });
  panel.sessionContext.sessionChanged.connect(update);
  update();
  commands.addCommand('completer:invoke-notebook', {
    label: 'Complete',
    execute: () => manager.invoke(panel.id)
  });
  commands.addCommand('completer:select-notebook', {
    label: 'Take the completion',
    execute: () => manager.select(panel.id)
  });
  commands.addKeyBinding({
    command: 'completer:invoke-notebook',
    keys: ['Tab'],
    selector: `${READY_TO_COMPLETE}:not(.jp-mod-at-line-beginning):not(.jp-mod-completer-active)`
  });
  commands.addKeyBinding({
    command: 'completer:invoke-notebook',
    keys: ['Ctrl Space'],
    selector: READY_TO_COMPLETE
  });
  commands.addKeyBinding({ command: 'completer:select-notebook', keys: ['Enter'], selector: OPEN });
}
