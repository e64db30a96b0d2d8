/** Shows notices of runs in the page, and as the browser's own notifications while the user is in another tab or program. */
import type { Notification } from '@jupyterlab/apputils';
import type { RunNotice } from './notices.js';
import { trans } from '../text/trans.js';

/** The page's own notifications. */
type PageNotices = Pick<typeof Notification, 'emit'>;

export function showNotices(notices: readonly RunNotice[], page: PageNotices): void {
  for (const { kind, text } of notices) {
    page.emit(text, kind, { autoClose: false });
    showInBrowser(text);
  }
}

/** Shows a notification only while the page is hidden; a visible page shows the notice itself. Off until the user allows it. */
function showInBrowser(text: string): void {
  if (!document.hidden || !('Notification' in window) || window.Notification.permission !== 'granted') return;
  try {
    const shown = new window.Notification('TPULab', { body: text, tag: text });
    shown.onclick = () => window.focus();
  } catch {
    // Android supports them for service workers only.
  }
}

/** Asks the user, on a click. */
export async function allowInBrowser(page: PageNotices): Promise<void> {
  const isAllowed = 'Notification' in window && (await window.Notification.requestPermission()) === 'granted';
  const text = isAllowed
    ? trans.__('The browser notifies you when a run ends or raises an alert and this page is hidden.')
    : trans.__('The browser does not allow notifications of this page. Its settings decide.');
  page.emit(text, isAllowed ? 'info' : 'warning');
}
