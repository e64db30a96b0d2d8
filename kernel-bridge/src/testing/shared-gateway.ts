/** For specs: one gateway for all tests of a file, or of a `describe`. */
import { afterAll, beforeAll } from 'vitest';
import type { GatewayOptions } from '../gateway/gateway.js';
import { TemporaryGateway } from './temporary-gateway.js';

/** Serves before the first test, and before what the caller prepares in a `beforeAll` of its own; ends after the last. */
export function gatewayForAll(options: Partial<GatewayOptions> = {}): TemporaryGateway {
  const bridge = new TemporaryGateway();
  beforeAll(async () => {
    await bridge.begin(options);
    await bridge.gateway.ready;
  });
  afterAll(() => bridge[Symbol.asyncDispose]());
  return bridge;
}
