export { RemoteProblem, type RemoteErrorCode } from './remote-error.js';
export type { ReachableRemote } from './contracts.js';
export type { Remote } from './remote.js';
export { type ReachableListener, Remotes, type RemotesOptions } from './remotes.js';
export { Forwarder } from './forward/forwarder.js';
export { RequestedExecutions } from './forward/requested-executions.js';
