export { EnvironmentCatalog, type EnvironmentCatalogOptions } from './catalog.js';
export { EnvironmentCreations } from './creations.js';
export { copyLessons, lessonsFolder } from './lessons.js';
export { TransferRate } from './transfer-rate.js';
export { UvProgress } from './uv-progress.js';
export { envCommand } from './command.js';
export { ENVIRONMENT_ERROR_CODES, EnvironmentError, type EnvironmentErrorCode } from './environment-error.js';
export type { EnvironmentKernelspec, KernelspecFile } from './kernelspec.js';
