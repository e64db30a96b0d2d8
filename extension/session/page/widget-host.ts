/** Gives our widgets the live figures of the page, as the plugin of the extension does in JupyterLab. */
import { sendCommand } from '../../src/runs/control-client.js';
import { HOST_KEY, type WidgetHost } from '../../src/widgets/feed.js';
import type { SessionPage } from './session-page.js';

export function shareWidgetHost({ backends, events, trans }: SessionPage): void {
  const host: WidgetHost = {
    telemetryOf: kernelId => events.telemetryOf(kernelId),
    machineOf: kernelId => events.machineOf(backends.backendOf(kernelId)?.id ?? ''),
    send: (kernelId, command) =>
      sendCommand({ kernelId, settings: backends.backendOf(kernelId)?.serverSettings ?? null }, command),
    trans
  };
  (globalThis as { [HOST_KEY]?: WidgetHost })[HOST_KEY] = host;
}
