/** The plugins of this extension. */
import { backendPlugins } from './backends/plugin.js';
import { conflictPlugin } from './conflict/plugin.js';
import { kernelPlugins } from './kernels/plugin.js';
import { launcherPlugin } from './launcher/plugin.js';

export * from './tokens.js';

export default [...backendPlugins, ...kernelPlugins, launcherPlugin, conflictPlugin];
