/** Alerts and ends of the notebook's runs: in the page, and as notifications of the browser where the user allows them. */
import { Notification } from '@jupyterlab/apputils';
import type { KernelTelemetry } from '../../src/events/kernel-telemetry.js';
import { allowInBrowser, showNotices } from '../../src/runs/browser-notices.js';
import { RunNotices } from '../../src/runs/notices.js';
import type { SessionPage } from './session-page.js';

export function followRuns({ current, events }: SessionPage): void {
  const notices = new RunNotices({ since: Date.now(), isWatched: () => !document.hidden });
  let followed: KernelTelemetry | null = null;
  const onChanged = (kernel: KernelTelemetry): void => {
    showNotices(notices.check(kernel), Notification);
  };
  const follow = (): void => {
    const kernel = current.current.kind === 'bridge' ? events.telemetryOf(current.current.kernelId) : null;
    if (kernel === followed) return;
    followed?.changed.disconnect(onChanged);
    followed = kernel;
    kernel?.changed.connect(onChanged);
    if (kernel) onChanged(kernel);
  };
  current.changed.connect(follow);
  follow();
}

export const allow = (): Promise<void> => allowInBrowser(Notification);
