/** A Lab dialog with React content: Lab shows it above the page and separates dialogs. */
import { Dialog } from '@jupyterlab/apputils';
import type { ReactWidget } from '@jupyterlab/ui-components';

/** Keys that Lab's dialogs capture, for buttons that this dialog lacks. */
const CAPTURED_KEYS = new Set(['Enter', 'ArrowLeft', 'ArrowRight']);

export class FormDialog extends Dialog<unknown> {
  /** @param titleId id of the element in `form` that names it */
  constructor(
    private readonly _form: ReactWidget,
    titleId: string
  ) {
    super({ body: _form, hasClose: true, buttons: [], defaultButton: 0 });
    this.addClass('jp-TPULabDialog');
    this.node.removeAttribute('aria-label');
    this.node.setAttribute('aria-labelledby', titleId);
  }

  override handleEvent(event: Event): void {
    if (event.type === 'keydown' && this._isOurs(event as KeyboardEvent)) return;
    if (event.type === 'focus') {
      this._keepFocus(event);
      return;
    }
    super.handleEvent(event);
  }

  private _isOurs({ key, target }: KeyboardEvent): boolean {
    const isInsideForm = target instanceof Element && this._form.node.contains(target);
    // A field with text in it is cleared first.
    return (
      isInsideForm &&
      (CAPTURED_KEYS.has(key) || (key === 'Escape' && target.hasAttribute('data-tpulab-escape')))
    );
  }

  /** The first button follows the last one: nothing below the dialog can be reached. */
  private _keepFocus(event: Event): void {
    const { target } = event;
    if (target instanceof Node && !this.node.contains(target)) {
      event.stopPropagation();
      this._form.node.querySelector<HTMLElement>('button, input, [tabindex]')?.focus();
    }
  }
}
