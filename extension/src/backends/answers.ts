/**
 * Validates the two answers that lead to the bridge. Handwritten, without the schemas' validator: it is a hundred
 * kilobytes in every page, for two small objects.
 */
import type { BridgeAddress, Health } from '@tpulab/protocol';

/** The part of the health answer that the page needs; a newer bridge may change the rest. */
export type KnownHealth = Pick<Health, 'status' | 'protocolVersion' | 'gatewayId'>;

export function asBridgeAddress(body: unknown): BridgeAddress | null {
  if (!isRecord(body)) {
    return null;
  }
  const { status, url, token, message, proxy = null, proofKey = null } = body;
  if (status !== 'ready' && status !== 'starting' && status !== 'failed') {
    return null;
  }
  if (
    !isTextOrNull(url) ||
    !isTextOrNull(token) ||
    !isTextOrNull(message) ||
    !isTextOrNull(proxy) ||
    !isTextOrNull(proofKey) ||
    (url !== null && !isHttpUrl(url))
  ) {
    return null;
  }
  return { status, url, token, message, proxy, proofKey };
}

export function asHealth(body: unknown): KnownHealth | null {
  if (!isRecord(body)) {
    return null;
  }
  const { status, protocolVersion, gatewayId } = body;
  if ((status !== 'ok' && status !== 'starting') || typeof gatewayId !== 'string') {
    return null;
  }
  return typeof protocolVersion === 'number' ? { status, protocolVersion, gatewayId } : null;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}
