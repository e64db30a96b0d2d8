/**
 * The wait of a page's first lists for the gateways behind it. Without it Lab would start a second kernel for a notebook whose
 * kernel runs there; it ends after a fixed time, because a gateway that hangs must not delay Lab.
 */
import type { IBridgeBackends } from '../backends/tokens.js';

/**
 * Resolves when each gateway has answered, or after `timeoutMs`: the hub lists the remotes. `bridgeMs` is the wait for the server on
 * this machine alone, where that is another server.
 */
export async function firstAnswers(
  backends: IBridgeBackends,
  timeoutMs: number,
  bridgeMs = timeoutMs
): Promise<void> {
  const end = Date.now() + timeoutMs;
  const isConnected = await backends.bridge.settled(bridgeMs);
  if (!isConnected) return;
  await backends.remotes.settled(Math.max(0, end - Date.now()));
  if (backends.remoteBackends.length === 0) return;
  // A remote is one more round trip away, often on another continent.
  const left = Math.max(timeoutMs / 2, end - Date.now());
  await Promise.all(backends.remoteBackends.map(remote => remote.settled(left)));
}
