/**
 * Creates an environment: it is built in a sibling folder and renamed into place at the end. If the process ends early, the
 * environment exists either completely or not at all.
 */
import path from 'node:path';
import { readFile } from 'node:fs/promises';
import { addedPackages } from './added-packages.js';
import { type CreationRecord, lockEnvironment, writeRecord } from './creation-record.js';
import type { CreationProgress } from './creation-progress.js';
import type { Accelerator, Definition } from './definition.js';
import { EnvironmentError, explainFileFailure, explainUvFailure } from './environment-error.js';
import {
  bundledPip,
  environmentFolder,
  makeEnvironmentsFolder,
  newBuildFolder,
  putInPlace,
  pythonOf,
  removeFolder,
  sweepLeftovers
} from './folders.js';
import { writeKernelspec } from './kernelspec.js';
import type { PackageSource } from './locations.js';
import { runUv } from './uv.js';

export interface Creation {
  readonly environments: string;
  /** The variant for the accelerator. */
  readonly definition: Definition;
  readonly accelerator: Accelerator;
  readonly uv: string;
  /** Python to use: a version or the path of an interpreter; null for the range in the description. */
  readonly python: string | null;
  /** null only for a description without an agent. */
  readonly agent: PackageSource | null;
  /** null for a description without recipes, and if the bridge was installed without them. */
  readonly recipes: PackageSource | null;
  /** Drops the user's packages of the replaced environment. */
  readonly withoutAdded: boolean;
  /** Packages that the user added to the environment of this name on another machine. */
  readonly also: readonly string[];
  /** Called under the lock: true if the existing environment is good, so that no work is needed. */
  readonly isThere: () => Promise<boolean>;
  readonly progress: CreationProgress;
  readonly signal: AbortSignal;
}

/** `unchanged`: no work was needed. Throws EnvironmentError. */
export async function createEnvironment(creation: Creation): Promise<'created' | 'unchanged'> {
  const { environments, definition } = creation;
  try {
    await makeEnvironmentsFolder(environments);
    await using _lock = await lockEnvironment(environments, definition.name);
    if (await creation.isThere()) return 'unchanged';
    const built = newBuildFolder(environments, definition.name);
    try {
      await build(built, creation);
      throwIfInterrupted(creation);
      await putInPlace(built, environments, definition.name);
    } finally {
      await removeFolder(built);
    }
    return 'created';
  } catch (error) {
    throw explainFileFailure(error, environments);
  } finally {
    await sweepLeftovers(environments);
  }
}

async function build(built: string, creation: Creation): Promise<void> {
  const { definition, progress } = creation;
  progress.stage('making the environment');
  await uv(creation, 'making the environment', [
    'venv',
    '--relocatable',
    '--no-project',
    '--no-config',
    '--prompt',
    definition.name,
    '--python',
    creation.python ?? definition.description.python,
    built
  ]);
  progress.stageDone();
  const target = ['--python', pythonOf(built)];

  const count = await countPackages(definition.lockFile);
  progress.stage(`installing ${count} packages`);
  // Bytecode is compiled once here, instead of at the first start of each kernel.
  const compile = ['--compile-bytecode', '--require-hashes', '--strict'];
  await uv(creation, 'installing packages', [
    'pip',
    'install',
    ...target,
    ...compile,
    '-r',
    definition.lockFile
  ]);
  progress.stageDone();

  if (definition.description.agent) {
    if (creation.agent === null) throw agentMissing();
    await installOwn(creation, target, 'the agent', creation.agent);
  }
  if (definition.description.recipes === true) {
    if (creation.recipes !== null) await installOwn(creation, target, 'the recipes', creation.recipes);
    // Kernels work without the recipes; only the notebooks that use them fail.
    else {
      progress.stage('skipping the recipes, which were not found (name them with --recipes)');
      progress.stageDone();
    }
  }
  await installPip(built, creation, target);
  const added = await reinstallAddedPackages(creation, target);
  await describe(built, creation, added);
}

/** Cells call pip by its name; if this Python has no bundled pip, a kernel installs one later. */
async function installPip(built: string, creation: Creation, target: readonly string[]): Promise<void> {
  const wheel = await bundledPip(built);
  if (wheel === null) return;
  const offline = ['--offline', '--no-index', '--no-deps'];
  await uv(creation, 'installing pip', ['pip', 'install', ...target, ...offline, wheel]);
}

/** The user's packages of the replaced environment. If they cannot be installed into the new one, the old one stays. */
async function reinstallAddedPackages(
  creation: Creation,
  target: readonly string[]
): Promise<readonly string[]> {
  const { definition, environments, progress, withoutAdded } = creation;
  const also = await installAlsoAdded(creation, target);
  const added = withoutAdded ? [] : await addedPackages(environmentFolder(environments, definition.name));
  if (added.length === 0) return also;
  progress.stage(`installing ${added.length} packages that you added`);
  const packages = added.flatMap(line => (line.startsWith('-e ') ? ['-e', line.slice(3)] : [line]));
  try {
    await uv(creation, 'installing packages that you added', ['pip', 'install', ...target, ...packages]);
  } catch (cause) {
    if (!(cause instanceof EnvironmentError) || cause.code === 'env_interrupted') throw cause;
    throw new EnvironmentError(
      'env_added_packages',
      `The environment stays as it was, because packages that you added (${added.join(', ')}) cannot be installed into the new one: ${cause.message} --without-added leaves them out.`,
      { cause }
    );
  }
  progress.stageDone();
  return [...new Set([...added, ...also])];
}

/** Installs each package separately: one that is unavailable for this machine must not prevent the others. */
async function installAlsoAdded(creation: Creation, target: readonly string[]): Promise<string[]> {
  const installed: string[] = [];
  for (const line of creation.also) {
    creation.progress.stage(`installing ${line}, which you added on another machine`);
    try {
      await uv(creation, `installing ${line}`, ['pip', 'install', ...target, line]);
      installed.push(line);
    } catch (cause) {
      if (!(cause instanceof EnvironmentError) || cause.code === 'env_interrupted') throw cause;
      creation.progress.stage(`leaving out ${line}, which cannot be installed here: ${cause.message}`);
    }
    creation.progress.stageDone();
  }
  return installed;
}

/** Installs one of our packages; its dependencies are in the lock file. */
async function installOwn(
  creation: Creation,
  target: readonly string[],
  what: string,
  source: PackageSource
): Promise<void> {
  creation.progress.stage(`installing ${what}`);
  await uv(creation, `installing ${what}`, [
    'pip',
    'install',
    ...target,
    '--no-deps',
    ...(await buildConstraints(creation.definition)),
    ...(source.editable ? ['--editable'] : []),
    source.path
  ]);
  creation.progress.stageDone();
}

async function describe(
  built: string,
  { definition, accelerator, environments, uv: uvPath }: Creation,
  added: readonly string[]
): Promise<void> {
  const { displayName, kernelspec } = definition.description;
  const record: CreationRecord = {
    format: 1,
    name: definition.name,
    displayName,
    fingerprint: definition.fingerprint,
    createdAt: new Date().toISOString(),
    uv: uvPath,
    accelerator,
    ...(added.length > 0 && { added: [...added] }),
    kernelspec
  };
  const place = environmentFolder(environments, definition.name);
  await writeKernelspec(built, place, record, definition.folder);
  await writeRecord(built, record);
}

async function uv(creation: Creation, doing: string, args: readonly string[]): Promise<void> {
  throwIfInterrupted(creation);
  const result = await runUv({
    uv: creation.uv,
    args,
    signal: creation.signal,
    onLine: line => {
      creation.progress.detail(line.trim());
    }
  });
  throwIfInterrupted(creation);
  if (result.exitCode !== 0) {
    throw explainUvFailure(doing, result, creation.python ?? creation.definition.description.python);
  }
}

function throwIfInterrupted({ signal, definition }: Creation): void {
  if (!signal.aborted) return;
  throw new EnvironmentError(
    'env_interrupted',
    `The creation of "${definition.name}" was interrupted and left nothing behind; start it again at any time.`
  );
}

/** Pins the build tools of our packages, if the descriptions contain them (`environments/build/requirements.lock`). */
async function buildConstraints(definition: Definition): Promise<readonly string[]> {
  const file = path.join(path.dirname(definition.folder), 'build', 'requirements.lock');
  try {
    await readFile(file);
    return ['--build-constraints', file];
  } catch {
    return [];
  }
}

/** Requirements of the lock file, including those of other systems. */
async function countPackages(lockFile: string): Promise<number> {
  const lines = (await readFile(lockFile, 'utf8')).split('\n');
  return lines.filter(line => /^[A-Za-z0-9]/.test(line)).length;
}

export function agentMissing(): EnvironmentError {
  return new EnvironmentError(
    'env_agent_missing',
    'The Python package `tpulab` (the agent) was not found; name its folder or wheel with --agent.'
  );
}

export function recipesMissing(requested: string): EnvironmentError {
  return new EnvironmentError(
    'env_recipes_missing',
    `There are no recipes (the Python package \`tpulab_recipes\`) at ${requested}; name its folder or wheel with --recipes.`
  );
}
