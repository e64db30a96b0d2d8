export { EnvironmentCatalog, type EnvironmentCatalogOptions } from './catalog.js';
export { envCommand } from './command.js';
export { ENVIRONMENT_ERROR_CODES, EnvironmentError, type EnvironmentErrorCode } from './environment-error.js';
export type { EnvironmentKernelspec, KernelspecFile } from './kernelspec.js';
