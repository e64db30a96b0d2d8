/** For a Lab and its gateway, which are told their ports. */
export { freePort } from '../../kernel-bridge/src/testing/free-port.js';
