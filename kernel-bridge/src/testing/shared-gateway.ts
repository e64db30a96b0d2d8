/** For specs: one gateway for all tests of a file, or of a `describe`. */
import { afterAll, beforeAll } from 'vitest';
import type { GatewayOptions } from '../gateway/gateway.js';
import { TemporaryGateway } from './temporary-gateway.js';

/** Starts before the first test, and before the caller's own `beforeAll`; ends after the last. */
export function gatewayForAll(options: Partial<GatewayOptions> = {}): TemporaryGateway {
  const bridge = new TemporaryGateway();
  beforeAll(async () => {
    await bridge.begin(options);
    await bridge.gateway.ready;
  });
  afterAll(() => bridge[Symbol.asyncDispose]());
  return bridge;
}
