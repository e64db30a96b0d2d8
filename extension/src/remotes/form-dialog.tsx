/** A dialog of Lab's around a form of ours. */
import { Dialog } from '@jupyterlab/apputils';
import type { ReactWidget } from '@jupyterlab/ui-components';

const FORM_CLASS = 'jp-TPULabConnect';

/** It has one button of Lab's, which ends it. */
export class FormDialog extends Dialog<unknown> {
  constructor(title: string, body: ReactWidget, close: string) {
    body.addClass(FORM_CLASS);
    super({
      title,
      body,
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
}
