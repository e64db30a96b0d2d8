/** Provides the event streams of the bridges. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IBridgeBackends } from '../backends/tokens.js';
import { IBridgeEvents } from './tokens.js';
import { BridgeEvents } from './bridge-events.js';

export const eventsPlugin: JupyterFrontEndPlugin<IBridgeEvents> = {
  id: '@tpulab/labextension:events',
  description: 'Receives telemetry and state of the kernels on the TPULab server.',
  autoStart: true,
  requires: [IBridgeBackends],
  provides: IBridgeEvents,
  activate: (_: JupyterFrontEnd, backends: IBridgeBackends): IBridgeEvents => {
    const events = new BridgeEvents(backends, event => backends.remotes.apply(event));
    // An offline page notices the network's return before any timer ends. The page owns the streams.
    window.addEventListener('online', () => events.reconnectNow());
    const check = (): void => {
      events.isHidden = document.visibilityState === 'hidden';
    };
    check();
    document.addEventListener('visibilitychange', check);
    window.addEventListener('pagehide', event => {
      if (!event.persisted) {
        events.dispose();
      }
    });
    return events;
  }
};
