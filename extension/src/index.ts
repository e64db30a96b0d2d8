/** The plugins of this extension. */
import { absentPlugin } from './unreachable/plugin.js';
import { backendPlugins } from './backends/plugin.js';
import { conflictPlugin } from './kernels/conflicting-plugins-plugin.js';
import { currentKernelPlugin, kernelDetailsPlugin } from './panel/current-plugin.js';
import { eventsPlugin } from './events/plugin.js';
import { kernelPlugins } from './kernels/plugin.js';
import { launcherPlugin } from './launcher/plugin.js';
import { lineNotesPlugin } from './panel/line-notes-plugin.js';
import { panelPlugin } from './panel/plugin.js';
import { reattachPlugin } from './reattach/plugin.js';
import { remotesPlugin } from './remotes/plugin.js';
import { runsPlugin } from './runs/plugin.js';
import { slicesPlugin } from './slices/plugin.js';
import { statusPlugin } from './status/plugin.js';
import { widgetsPlugin } from './widgets/plugin.js';

export * from './backends/tokens.js';
export * from './events/tokens.js';
export * from './tokens.js';

export default [
  ...backendPlugins,
  ...kernelPlugins,
  launcherPlugin,
  conflictPlugin,
  eventsPlugin,
  currentKernelPlugin,
  kernelDetailsPlugin,
  panelPlugin,
  lineNotesPlugin,
  reattachPlugin,
  remotesPlugin,
  runsPlugin,
  absentPlugin,
  slicesPlugin,
  statusPlugin,
  widgetsPlugin
];
