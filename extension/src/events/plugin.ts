/** Provides the event streams of the bridges. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IBridgeBackends } from '../backends/tokens.js';
import { IBridgeEvents } from './tokens.js';
import { eventsOfPage } from './bridge-events.js';

export const eventsPlugin: JupyterFrontEndPlugin<IBridgeEvents> = {
  id: '@tpulab/labextension:events',
  description: 'Receives telemetry and state of the kernels on the TPULab server.',
  autoStart: true,
  requires: [IBridgeBackends],
  provides: IBridgeEvents,
  activate: (_: JupyterFrontEnd, backends: IBridgeBackends): IBridgeEvents => eventsOfPage(backends)
};
