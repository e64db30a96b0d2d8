/** What other packages may use of the bridge. */
export * from './http/errors.js';
export { type Gateway, type GatewayOptions, startGateway } from './gateway/gateway.js';
export { ServeError, type ServeErrorCode } from './http/server-errors.js';
