/** Requests the bridge's address and its health, and turns every failure into a typed error. */
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, randomBytes, utf8ToBytes } from '@noble/hashes/utils.js';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { type BridgeAddress, type Health, PROTOCOL_VERSION } from '@tpulab/protocol';
import { BackendError } from './backend-error.js';
import { fixedBridgeSettings, type IBridgeAddress } from './bridge-settings.js';

/** The part of the health answer that the page needs; a newer bridge may change the rest. */
type KnownHealth = Pick<Health, 'status' | 'protocolVersion' | 'gatewayId'>;

function asBridgeAddress(body: unknown): BridgeAddress | null {
  if (!isRecord(body)) return null;
  const { status, url, token, message, proxy = null, proofKey = null } = body;
  if (status !== 'ready' && status !== 'starting' && status !== 'failed') return null;
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

function asHealth(body: unknown): KnownHealth | null {
  if (!isRecord(body)) return null;
  const { status, protocolVersion, gatewayId } = body;
  if ((status !== 'ok' && status !== 'starting') || typeof gatewayId !== 'string') return null;
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

export interface IProbeOptions {
  timeoutMs: number;
  signal: AbortSignal;
  fetch?: typeof fetch;
}

/** The Jupyter server's information about the running bridge. */
interface IKnownAddress {
  /** Its address for programs on that machine; null when this page has to go through the proxy. */
  readonly direct: IBridgeAddress | null;
  /** Path below the Jupyter server's own address; null where it passes nothing on. */
  readonly proxy: string | null;
}

/** `GET <base>tpulab/bridge` at the Jupyter server. Throws `BackendError`. */
export async function requestAddress(
  jupyter: ServerConnection.ISettings,
  options: IProbeOptions
): Promise<IKnownAddress> {
  const url = URLExt.join(jupyter.baseUrl, 'tpulab/bridge');
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(options.timeoutMs)]);
  let body: unknown;
  let status: number;
  try {
    const response = await ServerConnection.makeRequest(url, { signal }, jupyter);
    status = response.status;
    body = await response.json().catch(() => null);
  } catch (cause) {
    throw new BackendError(
      'bridge.addressUnreachable',
      'The Jupyter server did not report the address of the TPULab server; check that the server runs.',
      { cause }
    );
  }
  if (status === 404) {
    throw new BackendError(
      'bridge.noServerExtension',
      'The Jupyter server has no TPULab part; install tpulab into its environment and restart it.'
    );
  }
  const answer = status === 200 ? asBridgeAddress(body) : null;
  if (answer === null) {
    throw new BackendError(
      'bridge.addressUnreachable',
      `The Jupyter server answered ${status} when asked where the TPULab server is; see the server's log.`
    );
  }
  if (answer.status === 'ready') {
    const { url, token, proxy = null, proofKey: key = null } = answer;
    const direct =
      url !== null && token !== null ? { url, token, ...(key !== null && { proof: { url, key } }) } : null;
    if (direct !== null || proxy !== null) return { direct, proxy };
  }
  if (answer.status === 'failed') {
    throw new BackendError(
      'bridge.failed',
      answer.message ?? 'The TPULab server could not be started; see the server log.'
    );
  }
  throw new BackendError('bridge.starting', answer.message ?? 'The TPULab server is starting.');
}

/**
 * Asks the server at this address to prove that it is the bridge. No token or other data of ours is sent. Throws `BackendError`;
 * returns when it is the bridge, or when no proof is available.
 */
export async function requestProof({ proof }: IBridgeAddress, options: IProbeOptions): Promise<void> {
  if (proof === undefined) return;
  const challenge = bytesToHex(randomBytes(32));
  const url = `${URLExt.join(proof.url, 'bridge/v1/identity')}?challenge=${challenge}`;
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal = AbortSignal.any([options.signal, timeout]);
  let body: unknown;
  try {
    const response = await (options.fetch ?? fetch)(new Request(url, { credentials: 'omit', signal }));
    body = await response.json().catch(() => null);
  } catch (cause) {
    throw unanswered(timeout, options, cause);
  }
  const wanted = bytesToHex(hmac(sha256, utf8ToBytes(proof.key), utf8ToBytes(challenge)));
  if ((body as { proof?: unknown } | null)?.proof !== wanted) {
    throw new BackendError(
      'bridge.notABridge',
      `Another program answers at ${new URL(proof.url).origin}, the former address of the TPULab server; nothing is sent to it. The page requests the new address from the Jupyter server.`
    );
  }
}

/** `GET <bridge>bridge/v1/health`. Throws `BackendError`; returns when the bridge serves. */
export async function requestHealth(address: IBridgeAddress, options: IProbeOptions): Promise<KnownHealth> {
  const settings = fixedBridgeSettings(address, options.fetch);
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal = AbortSignal.any([options.signal, timeout]);
  let response: Response;
  let body: unknown;
  try {
    response = await ServerConnection.makeRequest(
      URLExt.join(address.url, 'bridge/v1/health'),
      { signal },
      settings
    );
    body = await response.json().catch((error: unknown) => {
      if (timeout.aborted) throw error;
      return null;
    });
  } catch (cause) {
    throw unanswered(timeout, options, cause);
  }
  if (response.status === 401 || response.status === 403) {
    throw new BackendError(
      'bridge.unauthorized',
      'The TPULab server refused the token of this page; reload the page, or restart the Jupyter server.'
    );
  }
  if (response.status === 503) {
    throw new BackendError(
      'bridge.starting',
      'The TPULab server is starting: it is looking for its kernels.'
    );
  }
  const health = response.status === 200 ? asHealth(body) : null;
  if (health === null) {
    throw new BackendError(
      'bridge.notABridge',
      `The server at ${new URL(address.url).origin} is not a TPULab server (status ${response.status}).`
    );
  }
  if (health.protocolVersion !== PROTOCOL_VERSION) {
    throw new BackendError(
      'bridge.protocol',
      `The TPULab server speaks version ${health.protocolVersion} of the protocol, this page ${PROTOCOL_VERSION}; ` +
        'install matching versions and restart both.'
    );
  }
  if (health.status !== 'ok') {
    throw new BackendError(
      'bridge.starting',
      'The TPULab server is starting: it is looking for its kernels.'
    );
  }
  return health;
}

function unanswered(timeout: AbortSignal, { timeoutMs }: IProbeOptions, cause: unknown): BackendError {
  return timeout.aborted
    ? new BackendError('bridge.timeout', `The TPULab server did not answer within ${timeoutMs / 1000} s.`, {
        cause
      })
    : new BackendError(
        'bridge.unreachable',
        'The TPULab server cannot be reached; it is restarted when it has stopped.',
        { cause }
      );
}
