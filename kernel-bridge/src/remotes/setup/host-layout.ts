/**
 * Where things are on a host. All is below one folder of the user (`~/.tpulab`); what depends on a version has it in its name, so
 * that a newer one comes beside the older one and kernels that run keep their files.
 *
 * ```
 * incoming/ID/           files on their way, by the machine that sends them
 * tools/NAME/            Node and uv, unpacked from their wheels
 * versions/VERSION-HASH/ the bridge
 * python/                a Python of our own, where the system's does not fit
 * envs/HASH/             kernel environments, by what they are made from
 * cache/                 uv's
 * state/                 of the gateway: kernels, journals, token (docs/architecture.md)
 * lock                   held while something is being changed
 * ```
 */
import { createHash } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import type { Payload } from './payload.js';
import type { ToolWheel } from './tool-locks.js';

export const DEFAULT_FOLDER = '.tpulab';

/** Relative to the folder; the scripts put the folder before them. */
export interface HostLayout {
  readonly bridge: string;
  readonly node: string;
  readonly uv: string;
  readonly environments: string;
  readonly incoming: string;
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
    environments: `envs/${payload.environmentsHash.slice(0, 12)}`,
    incoming: `incoming/${sender()}`
  };
}

/** The same for this machine and user each time, so that a copy that broke off goes on; two laptops do not meet. */
function sender(): string {
  return createHash('sha256').update(`${hostname()}\0${userInfo().username}`).digest('hex').slice(0, 12);
}
