export { checkRemoteHost, createHostSetup, type HostSetupOptions } from './host-setup.js';
export { SetupError, type SetupErrorCode } from './stage-reporter.js';
