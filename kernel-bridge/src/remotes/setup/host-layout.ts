/**
 * Where things are on a host. All is below one folder of the user (`~/.tpulab`); what depends on a version has it in its name, so
 * that a newer one comes beside the older one and kernels that run keep their files.
 *
 * ```
 * incoming/SENDER/       files on their way, of one remote of one gateway
 * tools/NAME/            Node and uv, unpacked from their wheels
 * versions/VERSION-HASH/ the bridge
 * python/                a Python of our own, where the system's does not fit
 * envs/HASH/             kernel environments, by what they are made from
 * cache/                 uv's
 * state/                 of the gateway: kernels, journals, token (docs/architecture.md)
 * lock                   held while something is being changed
 * ```
 */
import type { Payload } from './payload.js';
import type { ToolWheel } from './tool-locks.js';

export const DEFAULT_FOLDER = '.tpulab';

/** Relative to the folder; the scripts put the folder before them. */
export interface HostLayout {
  readonly bridge: string;
  readonly node: string;
  readonly uv: string;
  readonly environments: string;
}

export interface HostTools {
  readonly node: ToolWheel;
  readonly uv: ToolWheel;
}

export function hostLayout(payload: Payload, tools: HostTools): HostLayout {
  return {
    bridge: `versions/${payload.name}`,
    node: `tools/${tools.node.folder}`,
    uv: `tools/${tools.uv.folder}`,
    environments: `envs/${payload.environmentsHash.slice(0, 12)}`
  };
}

/** Where the files of this sender lie until they are in their place. */
export function incomingOf(sender: string): string {
  return `incoming/${sender}`;
}
