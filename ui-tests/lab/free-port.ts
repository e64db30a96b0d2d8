/** For a Lab and its gateway, which are told their ports. */
export { freePort } from '../../kernel-bridge/src/server/testing/free-port.js';
