/** What other packages may use of the bridge. */
export * from './kernels/errors.js';
export { type Gateway, type GatewayOptions, startGateway } from './server/gateway.js';
export { ServeError, type ServeErrorCode } from './server/server-errors.js';
