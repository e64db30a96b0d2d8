/** A dialog of Lab's around a form of ours. */
import { Dialog } from '@jupyterlab/apputils';
import type { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';

const FORM_CLASS = 'jp-TPULabConnect';

/** It has one button of Lab's, which ends it. */
export class FormDialog extends Dialog<unknown> {
  constructor(
    title: string,
    private readonly _form: ReactWidget,
    close: string
  ) {
    _form.addClass(FORM_CLASS);
    super({
      title,
      body: _form,
      hasClose: true,
      buttons: [Dialog.cancelButton({ label: close })],
      // Where one begins; on the button, Enter would end what has not begun.
      focusNodeSelector: 'input'
    });
    this.addClass('jp-TPULabConnect-dialog');
  }

  /** Lab's dialogs take Enter on its way down and end with it, wherever it is pressed. Inside the form it is the form's. */
  override handleEvent(event: Event): void {
    const isInForm = event.target instanceof Element && event.target.closest(`.${FORM_CLASS}`) !== null;
    if (isInForm && event.type === 'keydown' && (event as KeyboardEvent).key === 'Enter') {
      return;
    }
    super.handleEvent(event);
  }

  /**
   * Lab gives a form its focus when the page is idle, which may be long after somebody has begun to type in another field; what they
   * type then lands in the first. Here that is as soon as the form is drawn.
   */
  protected override onAfterAttach(message: Message): void {
    this._form.renderPromise = Promise.race([this._form.renderPromise, drawn(this._form.node)]);
    super.onAfterAttach(message);
  }
}

/** React draws a form all at once, some time after it was told to. */
function drawn(node: HTMLElement): Promise<void> {
  return new Promise(resolve => {
    const observer = new MutationObserver(() => {
      observer.disconnect();
      resolve();
    });
    observer.observe(node, { childList: true });
    if (node.firstChild) {
      observer.disconnect();
      resolve();
    }
  });
}
