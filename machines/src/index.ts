/** Everything in this package that the server uses, except `./environments`, the other entry. */
export { ChipTable, DeviceError, type DeviceErrorCode } from './chips/chip-table.js';
export { findChips, type FoundChip } from './chips/find-chips.js';
export { HostOnly, SLICE_ENVIRONMENTS, SLICE_KERNELS } from './chips/host-only.js';
export { ColabAccount } from './colab/colab-account.js';
export { colabOnPath } from './colab/colab-command.js';
export type { Machine, ReachableRemote, RemoteShell } from './machine.js';
export { type Gcloud, gcloudOnPath, withNames } from './gcloud/gcloud.js';
export { withZone } from './gcloud/project-machines.js';
export { openMachine, type OpenMachine } from './open-machine.js';
export {
  isCloudSilent,
  type RemoteErrorCode,
  remoteErrorOf,
  RemoteProblem,
  RemoteQueued
} from './remote-error.js';
export {
  BadAnswer,
  codeOf,
  headersForRemote,
  type RemoteAnswer,
  RemoteGateway,
  TokenRefused,
  withoutToken
} from './remote-gateway.js';
export { RemoteStore } from './remote-store.js';
export type { Remote } from './remote.js';
export { type ReachableListener, Remotes, type RemotesOptions } from './remotes.js';
export { resolveSource, setsUpAllHosts, sliceWarning, withCloudRemedy } from './resolve-source.js';
export { failed, ok, warning } from './setup/host-checks.js';
export { checkRemoteHost } from './setup/host-setup.js';
export { readPayload } from './setup/payload.js';
export { script } from './setup/host-scripts.js';
export { SshMaster } from './ssh/master.js';
export type { SshTarget } from './ssh/ssh-config.js';
export { viaMaster } from './ssh/ssh-process.js';
export { SshShell } from './ssh/ssh-shell.js';
export { SyncJobs } from './sync/sync-jobs.js';
