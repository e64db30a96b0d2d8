/** Alerts and ends of the notebook's runs: in the page, and as notifications of the browser where the user allows them. */
import { Notification } from '@jupyterlab/apputils';
import type { KernelTelemetry } from '../../src/events/kernel-telemetry.js';
import { allowInBrowser, showInBrowser } from '../../src/runs/browser-notices.js';
import { RunNotices } from '../../src/runs/notices.js';
import { trans } from '../text.js';
import type { SessionPage } from './session-page.js';

export function followRuns({ current, events }: SessionPage): void {
  const notices = new RunNotices({ since: Date.now(), isWatched: () => !document.hidden, trans: trans });
  let followed: KernelTelemetry | null = null;
  const tell = (kernel: KernelTelemetry): void => {
    for (const { kind, text } of notices.look(kernel)) {
      Notification.emit(text, kind, { autoClose: false });
      showInBrowser(text);
    }
  };
  const follow = (): void => {
    const kernel = current.current.kind === 'bridge' ? events.telemetryOf(current.current.kernelId) : null;
    if (kernel === followed) return;
    followed?.changed.disconnect(tell);
    followed = kernel;
    kernel?.changed.connect(tell);
    if (kernel) tell(kernel);
  };
  current.changed.connect(follow);
  follow();
}

export async function allow(): Promise<void> {
  const text = (await allowInBrowser())
    ? trans.__('The browser notifies you when a run ends or raises an alert and this page is hidden.')
    : trans.__('The browser does not allow notifications of this page. Its settings decide.');
  Notification.emit(text, 'info');
}
