/** The plugins of this extension. */
import { backendPlugins } from './backends/plugin.js';
import { kernelPlugins } from './kernels/plugin.js';

export * from './tokens.js';

export default [...backendPlugins, ...kernelPlugins];
