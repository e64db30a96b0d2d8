/** For a Lab and its gateway, whose ports are set by options. */
export { freePort } from '../../kernel-bridge/src/testing/free-port.js';
