/** Asks before something that cannot be undone. */
import { Dialog, showDialog } from '@jupyterlab/apputils';

export async function sure(title: string, body: string, action: string): Promise<boolean> {
  const buttons = [Dialog.cancelButton(), Dialog.warnButton({ label: action })];
  return (await showDialog({ title, body, buttons })).button.accept;
}
