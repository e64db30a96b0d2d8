/** What `tpulab env` does: create, check and remove one environment. */
import { existsSync } from 'node:fs';
import type { EnvironmentInfo } from '@tpulab/protocol';
import type { EnvironmentCatalog } from './catalog.js';
import { agentMissing, createEnvironment, recipesMissing } from './create-environment.js';
import { lockEnvironment } from './creation-lock.js';
import type { CreationProgress } from './creation-progress.js';
import { readRecord } from './creation-record.js';
import { ChipTable } from '../devices/chip-table.js';
import { findChips } from '../devices/find-chips.js';
import {
  type Accelerator,
  type Definition,
  definitionNamed,
  readDefinitions,
  variantOf
} from './definition.js';
import { EnvironmentError } from './environment-error.js';
import { explainFileFailure } from './file-failure.js';
import { environmentFolder, removeEnvironment, sweepLeftovers } from './folders.js';
import { agentSource, recipesSource } from './locations.js';
import { nearestName } from '../platform/nearest-name.js';
import { type SmokeCheck, runSmokeTest } from './smoke-test.js';
import { findUv } from './uv.js';

export interface CreateOptions {
  readonly python?: string | undefined;
  readonly agent?: string | undefined;
  readonly recipes?: string | undefined;
  /** Absent: TPU where this machine has chips and the environment is described for them. */
  readonly accelerator?: Accelerator | undefined;
  /** Makes it anew although it is there and up to date. */
  readonly force: boolean;
  readonly progress: CreationProgress;
  readonly signal: AbortSignal;
}

export interface CreateResult {
  readonly result: 'created' | 'unchanged';
  readonly environment: EnvironmentInfo;
}

export async function create(
  catalog: EnvironmentCatalog,
  name: string,
  options: CreateOptions
): Promise<CreateResult> {
  const described = definitionNamed(await readDefinitions(catalog.definitions), name);
  const accelerator = options.accelerator ?? (await acceleratorHere(described));
  const definition = variantOf(described, accelerator);
  const agent = definition.description.agent ? agentSource(options.agent) : null;
  if (definition.description.agent && agent === null) throw agentMissing();
  const recipes = definition.description.recipes === true ? recipesSource(options.recipes) : null;
  if (options.recipes !== undefined && recipesSource(options.recipes) === null) {
    throw recipesMissing(options.recipes);
  }
  const result = await createEnvironment({
    environments: catalog.environments,
    definition,
    accelerator,
    uv: findUv(),
    python: options.python ?? null,
    agent,
    recipes,
    isThere: async () => !options.force && (await isReady(catalog, described, accelerator)),
    progress: options.progress,
    signal: options.signal
  });
  return { result, environment: await catalog.info(name, described) };
}

async function acceleratorHere({ description }: Definition): Promise<Accelerator> {
  if (description.tpu === undefined) return 'cpu';
  return (await findChips(new ChipTable())).length > 0 ? 'tpu' : 'cpu';
}

/** An environment for the other kind of machine is to be made anew although it is whole. */
async function isReady(
  catalog: EnvironmentCatalog,
  definition: Definition,
  accelerator: Accelerator
): Promise<boolean> {
  if ((await catalog.info(definition.name, definition)).state !== 'ready') return false;
  const record = await readRecord(environmentFolder(catalog.environments, definition.name));
  return (record?.accelerator ?? 'cpu') === accelerator;
}

/** Longer than any import and first compilation takes on a slow machine. */
const SMOKE_TEST_TIMEOUT_MS = 300_000;

export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly environment: EnvironmentInfo;
  readonly checks: readonly SmokeCheck[];
}

export async function check(
  catalog: EnvironmentCatalog,
  name: string,
  signal: AbortSignal
): Promise<CheckResult> {
  await sweepLeftovers(catalog.environments);
  const definition = definitionNamed(await readDefinitions(catalog.definitions), name);
  const environment = await catalog.info(name, definition);
  const checks = await checksOf(catalog, definition, environment, signal);
  return { name, ok: checks.every(each => each.ok), environment, checks };
}

async function checksOf(
  catalog: EnvironmentCatalog,
  definition: Definition,
  { state, detail }: EnvironmentInfo,
  signal: AbortSignal
): Promise<readonly SmokeCheck[]> {
  const { name } = definition;
  const create = `Run \`tpulab env create ${name}\`.`;
  if (state === 'available') {
    return [{ check: 'it is created', ok: false, detail: 'it is not', remedy: create }];
  }
  if (state === 'broken') {
    return [{ check: 'it is complete', ok: false, detail: detail ?? 'it is not', remedy: create }];
  }
  const upToDate: SmokeCheck = {
    check: 'it is up to date',
    ok: state === 'ready',
    detail: detail ?? 'made from this description and lock file',
    remedy: state === 'ready' ? null : create
  };
  const folder = environmentFolder(catalog.environments, name);
  const record = await readRecord(folder);
  const smoke = await runSmokeTest({
    environment: folder,
    script: definition.smokeTest,
    env: { ...record?.kernelspec.envDefaults, ...record?.kernelspec.env },
    timeoutMs: SMOKE_TEST_TIMEOUT_MS,
    signal
  });
  const anew = `Run \`tpulab env create ${name} --force\`.`;
  return [upToDate, ...smoke.map(each => (each.ok ? each : { ...each, remedy: each.remedy ?? anew }))];
}

export async function remove(catalog: EnvironmentCatalog, name: string): Promise<void> {
  await sweepLeftovers(catalog.environments);
  const infos = await catalog.list();
  const created = infos.filter(info => info.path !== null);
  const info = created.find(candidate => candidate.name === name);
  if (!info) throw notCreated(name, infos, created);
  const folder = environmentFolder(catalog.environments, name);
  if ((await readRecord(folder)) === null && !(await isDescribed(catalog, name))) {
    throw new EnvironmentError(
      'env_not_created',
      `${folder} was not made by \`tpulab env create\`; remove it yourself if it is of no use.`
    );
  }
  try {
    await using _lock = await lockEnvironment(catalog.environments, name);
    await removeEnvironment(catalog.environments, name);
  } catch (error) {
    throw explainFileFailure(error, catalog.environments);
  }
}

async function isDescribed(catalog: EnvironmentCatalog, name: string): Promise<boolean> {
  if (!existsSync(catalog.definitions)) return false;
  return (await readDefinitions(catalog.definitions)).some(definition => definition.name === name);
}

function notCreated(
  name: string,
  infos: readonly EnvironmentInfo[],
  created: readonly EnvironmentInfo[]
): EnvironmentError {
  if (infos.some(info => info.name === name)) {
    return new EnvironmentError(
      'env_not_created',
      `The environment "${name}" is not created; nothing to remove.`
    );
  }
  const near = nearestName(
    name,
    created.map(info => info.name)
  );
  const hint = near === null ? 'see `tpulab env list`' : `did you mean "${near}"?`;
  return new EnvironmentError('env_unknown', `There is no environment "${name}"; ${hint}`);
}
