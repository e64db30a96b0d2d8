/** Completion from the kernel and from the notebook itself, loaded with the first edited cell. */
import {
  type CompletionHandler,
  CompletionProviderManager,
  ContextCompleterProvider,
  type ICompletionContext,
  KernelCompleterProvider
} from '@jupyterlab/completer';
import type { Session } from '@jupyterlab/services';
import '@jupyterlab/completer/style/index.js';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';

import { inspect } from './inspect.js';
import { sideShellOf } from './side-shell.js';
import { trans } from '../text.js';

/** A busy kernel answers late, or on another thread. */
const TIMEOUT_MS = 2_000;
const READY_TO_COMPLETE = '.jp-Notebook.jp-mod-editMode .jp-mod-completer-enabled';
const OPEN = '.jp-Notebook .jp-mod-completer-active';

/** JupyterLab's own provider, requested on another shell than the cells. */
class SideCompleter extends KernelCompleterProvider {
  override fetch(request: CompletionHandler.IRequest, context: ICompletionContext) {
    return super.fetch(request, aside(context));
  }

  override resolve(
    item: CompletionHandler.ICompletionItem,
    context: ICompletionContext,
    patch?: Parameters<KernelCompleterProvider['resolve']>[2]
  ) {
    return super.resolve(item, aside(context), patch);
  }
}

function aside(context: ICompletionContext): ICompletionContext {
  const kernel = context.session?.kernel;
  if (!kernel) return context;
  const side = sideShellOf(kernel);
  const requested = {
    requestComplete: side.complete.bind(side),
    requestInspect: side.inspect.bind(side)
  };
  return { ...context, session: { kernel: requested } as unknown as Session.ISessionConnection };
}

export function addCompletion(panel: NotebookPanel, commands: CommandRegistry): void {
  const manager = new CompletionProviderManager();
  manager.registerProvider(new ContextCompleterProvider());
  manager.registerProvider(new SideCompleter());
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
      if (!panel.isDisposed && panel.content.activeCell === cell) update();
    });
  });
  panel.sessionContext.sessionChanged.connect(update);
  update();
  commands.addCommand('completer:invoke-notebook', {
    label: trans.__('Complete'),
    execute: () => manager.invoke(panel.id)
  });
  commands.addCommand('completer:select-notebook', {
    label: trans.__('Accept completion'),
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
  commands.addCommand('tooltip:launch-notebook', {
    label: trans.__('Show the documentation at the cursor'),
    execute: () => inspect(panel)
  });
  commands.addKeyBinding({
    command: 'tooltip:launch-notebook',
    keys: ['Shift Tab'],
    selector: `${READY_TO_COMPLETE}:not(.jp-mod-in-leading-whitespace):not(.jp-mod-completer-active)`
  });
}
