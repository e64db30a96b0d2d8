/** The kernel's documentation of the name at the cursor: Shift+Tab. Closed by Escape, a click, or further typing. */
import { Text } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { MimeModel } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { sideShellOf } from './side-shell.js';
import { trans } from '../text.js';

const TEXT = 'text/plain';
let shown: (() => void) | null = null;

export async function inspect({ content, sessionContext }: NotebookPanel): Promise<void> {
  const editor = content.activeCell?.editor;
  const kernel = sessionContext.session?.kernel;
  shown?.();
  if (!editor || !kernel) {
    return;
  }
  const position = editor.getCursorPosition();
  const source = editor.model.sharedModel.getSource();
  // The kernel counts characters, JavaScript counts UTF-16 units.
  const cursor = Text.jsIndexToCharIndex(editor.getOffsetAt(position), source);
  const { content: reply } = await sideShellOf(kernel).inspect({
    code: source,
    cursor_pos: cursor,
    detail_level: 0
  });
  if (reply.status !== 'ok' || !reply.found) {
    return;
  }
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
    if (event instanceof PointerEvent && host.contains(event.target as Node)) {
      return;
    }
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
