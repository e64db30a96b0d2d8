/** What the agent of a kernel said that it cannot know, and why. */
import type { Capability, HelloMessage } from '@tpulab/protocol';

/** Why this is not known; null where it is, and where nobody has said so. */
export function whyUnknown(agent: HelloMessage | null, name: Capability['name']): string | null {
  return agent?.capabilities?.find(one => one.name === name && !one.available)?.reason ?? null;
}
