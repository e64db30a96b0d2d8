/** The part of the bridge that other packages may use. */
export * from '@tpulab/platform/errors.js';
export { type Gateway, type GatewayOptions, startGateway } from './gateway/gateway.js';
export { ServeError, type ServeErrorCode } from '@tpulab/platform/errors.js';
