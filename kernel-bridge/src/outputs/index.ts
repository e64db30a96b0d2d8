/** The parts of the outputs module that the server and the command line use. */
export { codeHash } from './execution.js';
export { INDEX_FILE, INDEX_LIMITS } from './index-file.js';
export { KernelOutputs } from './kernel-outputs.js';
export { type Extent, OutputsOfKernels, type OutputsOfKernelsOptions } from './outputs-of-kernels.js';
export { DEFAULT_MAX_BYTES, type Outputs, type OutputsRequest, withoutKernel } from './read-outputs.js';
