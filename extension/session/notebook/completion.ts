/** Completion from the kernel and from the notebook itself, loaded with the first edited cell. */
import {
  type CompletionHandler,
  CompletionProviderManager,
  ContextCompleterProvider,
  type ICompletionContext,
  KernelCompleterProvider
} from '@jupyterlab/completer';
import type { Kernel, KernelMessage, Session } from '@jupyterlab/services';
import '@jupyterlab/completer/style/index.js';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import { Text } from '@jupyterlab/coreutils';
import { MimeModel } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
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

/** The kernel's documentation of the name at the cursor: Shift+Tab. Closed by Escape, a click, or further typing. */
const TEXT = 'text/plain';
let shown: (() => void) | null = null;

async function inspect({ content, sessionContext }: NotebookPanel): Promise<void> {
  const editor = content.activeCell?.editor;
  const kernel = sessionContext.session?.kernel;
  shown?.();
  if (!editor || !kernel) return;
  const position = editor.getCursorPosition();
  const source = editor.model.sharedModel.getSource();
  // The kernel counts characters, JavaScript counts UTF-16 units.
  const cursor = Text.jsIndexToCharIndex(editor.getOffsetAt(position), source);
  const { content: reply } = await sideShellOf(kernel).inspect({
    code: source,
    cursor_pos: cursor,
    detail_level: 0
  });
  if (reply.status !== 'ok' || !reply.found) return;
  const renderer = content.rendermime.createRenderer(TEXT);
  await renderer.renderModel(new MimeModel({ data: { [TEXT]: reply.data[TEXT] ?? '' } }));
  const host = document.createElement('div');
  host.className = 'tpl-Inspect tpl-Popover';
  host.setAttribute('role', 'status');
  host.setAttribute('aria-label', trans.__('Documentation'));
  const at = editor.getCoordinateForPosition(position) ?? editor.host.getBoundingClientRect();
  document.querySelector('.tpl-Page')?.append(host);
  Widget.attach(renderer, host);
  const { width, height } = host.getBoundingClientRect();
  const isBelow = at.bottom + height + 8 < window.innerHeight;
  host.style.left = `${Math.max(8, Math.min(at.left, window.innerWidth - width - 8))}px`;
  host.style.top = `${isBelow ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`;
  const close = (event?: Event): void => {
    if (event instanceof PointerEvent && host.contains(event.target as Node)) return;
    document.removeEventListener('keydown', close, true);
    document.removeEventListener('pointerdown', close, true);
    shown = null;
    renderer.dispose();
    host.remove();
  };
  document.addEventListener('keydown', close, true);
  document.addEventListener('pointerdown', close, true);
  shown = close;
}

class SideShell {
  constructor(private readonly kernel: Kernel.IKernelConnection) {
    // A restarted kernel has other shells.
    kernel.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting' || status === 'dead') this._id = null;
    });
  }

  complete(content: KernelMessage.ICompleteRequestMsg['content']): Promise<KernelMessage.ICompleteReplyMsg> {
    return this.inTurn(() => this.kernel.requestComplete(content));
  }

  inspect(content: KernelMessage.IInspectRequestMsg['content']): Promise<KernelMessage.IInspectReplyMsg> {
    return this.inTurn(() => this.kernel.requestInspect(content));
  }

  private async inTurn<T>(request: () => Promise<T>): Promise<T> {
    const { kernel } = this;
    // The busy state cannot be determined: the idle message of a subshell looks like the kernel's.
    const id = kernel.supportsSubshells ? await this.shell() : null;
    // The connection sets the shell of a request when it is created; cells go to the main shell.
    kernel.subshellId = id;
    const answer = request();
    kernel.subshellId = null;
    return answer;
  }

  private shell(): Promise<string> {
    this._id ??= this.kernel.requestCreateSubshell({}).done.then(({ content }) => content.subshell_id);
    this._id.catch(() => {
      this._id = null;
    });
    return this._id;
  }

  private _id: Promise<string> | null = null;
}

const shells = new WeakMap<Kernel.IKernelConnection, SideShell>();

function sideShellOf(kernel: Kernel.IKernelConnection): SideShell {
  const known = shells.get(kernel) ?? new SideShell(kernel);
  shells.set(kernel, known);
  return known;
}
