/** Python environments of this computer: the second entry of this package. */
export { EnvironmentCatalog, type EnvironmentCatalogOptions } from './catalog.js';
export { everyLine, ProgressLines } from './creation-progress.js';
export { EnvironmentCreations } from './creations.js';
export type { Accelerator } from './definition.js';
export { ENVIRONMENT_ERROR_CODES, EnvironmentError, type EnvironmentErrorCode } from './environment-error.js';
export { sweepLeftovers } from './folders.js';
export type { EnvironmentKernelspec, KernelspecFile } from './kernelspec.js';
export { copyLessons, lessonsFolder } from './lessons.js';
export { PACKAGE_FOLDER } from './locations.js';
export {
  add,
  aotPython,
  compilerState,
  check,
  type CheckResult,
  create,
  pythonOfEnvironment,
  remove
} from './operations.js';
export { runProgram } from './run-program.js';
export { findUv, runUv, TransferRate, UvProgress } from './uv.js';
