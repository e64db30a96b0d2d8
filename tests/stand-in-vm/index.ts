export { ENVIRONMENTS, preparedHost } from './prepared-host.js';
export { PASSWORD, USER } from './accounts.js';
export { findProgram, unavailableReason } from './availability.js';
export { ColabAccount, type ColabAnswers } from './colab/account.js';
export * from './gcloud.js';
export { Laptop } from './laptop.js';
export type { Metadata } from './metadata.js';
export { StandInVm, type StandInVmOptions } from './stand-in-vm.js';
export { standInTpu, type StandInTpu } from './tpu.js';
