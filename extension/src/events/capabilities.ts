/** What the agent of a kernel cannot determine, and why. */
import type { Capability, HelloMessage } from '@tpulab/protocol';

/** Why this is unknown; null where it is known, and where no reason was reported. */
export function unavailableReason(agent: HelloMessage | null, name: Capability['name']): string | null {
  return agent?.capabilities?.find(one => one.name === name && !one.available)?.reason ?? null;
}
