/** The operations of `tpulab env`: create, check and remove one environment. */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import type { EnvironmentInfo, NotebookCheck } from '@tpulab/protocol';
import { ChipTable } from '../chips/chip-table.js';
import { findChips } from '../chips/find-chips.js';
import { nearestName } from '@tpulab/platform/nearest-name.js';
import type { EnvironmentCatalog } from './catalog.js';
import { agentMissing, createEnvironment, recipesMissing } from './create-environment.js';
import { type CreationRecord, lockEnvironment, readRecord, writeRecord } from './creation-record.js';
import type { CreationProgress } from './creation-progress.js';
import {
  type Accelerator,
  type Definition,
  definitionNamed,
  readDefinitions,
  variantOf
} from './definition.js';
import { EnvironmentError, explainFileFailure, explainUvFailure } from './environment-error.js';
import {
  environmentFolder,
  makeEnvironmentsFolder,
  newBuildFolder,
  putInPlace,
  pythonOf,
  removeEnvironment,
  sweepLeftovers
} from './folders.js';
import { writeKernelspec } from './kernelspec.js';
import { agentSource, recipesSource } from './locations.js';
import { type ProgramResult, runProgram } from './run-program.js';
import { findUv, pythonFreeEnv, runUv } from './uv.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

interface CreateOptions {
  readonly python?: string | undefined;
  readonly agent?: string | undefined;
  readonly recipes?: string | undefined;
  /** If omitted: TPU if this machine has chips and the environment has a TPU description, otherwise CPU. */
  readonly accelerator?: Accelerator | undefined;
  /** Drops the user's packages of the replaced environment. */
  readonly withoutAdded?: boolean | undefined;
  /** Additional packages, as lines of a requirements file. Those that cannot be installed are skipped. */
  readonly also?: readonly string[] | undefined;
  /** Recreates the environment even if it exists and is up to date. */
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
    withoutAdded: options.withoutAdded === true,
    also: options.also ?? [],
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

/** A complete environment for the other kind of machine still has to be recreated. */
async function isReady(
  catalog: EnvironmentCatalog,
  definition: Definition,
  accelerator: Accelerator
): Promise<boolean> {
  if ((await catalog.info(definition.name, definition)).state !== 'ready') return false;
  const record = await readRecord(environmentFolder(catalog.environments, definition.name));
  return (record?.accelerator ?? 'cpu') === accelerator;
}

/** Longer than any import and first compilation on a slow machine. */
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
  const record = await readRecord(environmentFolder(catalog.environments, name));
  if (record?.python !== undefined) return checkAdded(catalog, name, record.python, signal);
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
  const recreate = `Run \`tpulab env create ${name} --force\`.`;
  return [upToDate, ...smoke.map(each => (each.ok ? each : { ...each, remedy: each.remedy ?? recreate }))];
}

/** Whether a kernel can start in an environment of the user. */
async function checkAdded(
  catalog: EnvironmentCatalog,
  name: string,
  python: string,
  signal: AbortSignal
): Promise<CheckResult> {
  const environment = await catalog.info(name, undefined);
  const facts = await pythonFacts(python, signal).catch((error: unknown) => error);
  const starts = {
    check: 'a kernel can start',
    ok: !(facts instanceof Error),
    detail: facts instanceof Error ? facts.message : `with ${python}`,
    remedy: `Run \`tpulab env add ${path.dirname(path.dirname(python))}\` again.`
  };
  return { name, ok: starts.ok, environment, checks: [starts] };
}

export interface AddOptions {
  /** null: derived from the folder's name. */
  readonly name: string | null;
  readonly agent?: string | undefined;
  readonly progress: CreationProgress;
  readonly signal: AbortSignal;
}

/**
 * Turns an environment of the user (venv, conda, uv; its folder or its Python) into a kernel: installs ipykernel and the agent
 * into it, and stores a record of its path beside our own environments. Adding it again updates the agent.
 */
export async function add(
  catalog: EnvironmentCatalog,
  place: string,
  options: AddOptions
): Promise<EnvironmentInfo> {
  const { progress, signal } = options;
  const folder = path.resolve(place);
  const python = [folder, path.join(folder, 'bin', 'python')].find(file =>
    statSync(file, { throwIfNoEntry: false })?.isFile()
  );
  if (python === undefined) {
    throw new EnvironmentError(
      'env_not_usable',
      `${folder} is not a Python environment: it has no bin/python. Name the folder of a venv, conda or uv environment, or its Python.`
    );
  }
  const name = options.name ?? nameFor(folder === python ? path.dirname(path.dirname(python)) : folder);
  const listed = await catalog.list();
  const other = listed.find(info => info.name === name);
  const record = await readRecord(environmentFolder(catalog.environments, name));
  if (!NAME.test(name) || (other !== undefined && record?.python === undefined)) {
    const why = NAME.test(name)
      ? 'is the name of an environment of TPULab'
      : 'is not a valid name (use a-z, 0-9 and -)';
    throw new EnvironmentError('env_not_usable', `"${name}" ${why}; choose another with --name.`);
  }
  const agent = agentSource(options.agent);
  if (agent === null) throw agentMissing();
  progress.stage('installing ipykernel and the agent');
  // The complete TPULab contains the agent; the agent's own wheel has the same name and would replace it.
  const whole = await runCode(python, 'import jupyterlab_tpulab, tpulab.launcher', signal);
  const isWhole = whole.exitCode === 0;
  const uv = findUv();
  // A system's own Python refuses the installation; explained by uv's output.
  const result = await runUv({
    uv,
    args: [
      'pip',
      'install',
      '--python',
      python,
      'ipykernel>=7',
      ...(isWhole ? [] : agent.editable ? ['--editable', agent.path] : [agent.path])
    ],
    signal,
    onLine: line => progress.detail(line.trim())
  });
  if (result.exitCode !== 0) throw explainUvFailure('installing the agent', result, python);
  progress.stageDone();
  const version = await pythonFacts(python, signal);
  const made: CreationRecord = {
    format: 1,
    name,
    displayName: `${name} (Python ${version})`,
    fingerprint: '',
    createdAt: new Date().toISOString(),
    uv,
    python,
    kernelspec: {
      argv: ['-Xfrozen_modules=off', '-m', 'tpulab.launcher', '-f', '{connection_file}'],
      env: {},
      envDefaults: {},
      debugger: true
    }
  };
  try {
    await makeEnvironmentsFolder(catalog.environments);
    await using _lock = await lockEnvironment(catalog.environments, name);
    const built = newBuildFolder(catalog.environments, name);
    const inPlace = environmentFolder(catalog.environments, name);
    await writeKernelspec(built, inPlace, made, path.join(catalog.definitions, 'jax'));
    await writeRecord(built, made);
    await putInPlace(built, catalog.environments, name);
  } catch (error) {
    throw explainFileFailure(error, catalog.environments);
  }
  return catalog.info(name, undefined);
}

const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/;

/** A folder `.venv` is named after its project. */
function nameFor(folder: string): string {
  const own = path.basename(folder);
  const named = /^\.?(venv|env)$/.test(own) ? path.basename(path.dirname(folder)) : own;
  return named
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
}

/** The version of the Python, if it can start our launcher. */
async function pythonFacts(python: string, signal: AbortSignal): Promise<string> {
  const code = 'import sys, ipykernel, tpulab.launcher; print("%d.%d" % sys.version_info[:2])';
  const { exitCode, stdout, stderr } = await runCode(python, code, signal);
  if (exitCode === 0) return stdout.at(-1) ?? '';
  throw new EnvironmentError(
    'env_not_usable',
    `A kernel cannot start with ${python}: ${stderr.at(-1) ?? 'it does not run'}`
  );
}

function runCode(python: string, code: string, signal: AbortSignal): Promise<ProgramResult> {
  return runProgram({
    command: python,
    args: ['-c', code],
    env: pythonFreeEnv(process.env),
    cwd: '/',
    signal,
    timeoutMs: 120_000
  });
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

/** A JSON line of an environment's smoke_test.py, one for each check. */
const SmokeCheck = Type.Object({
  check: Type.String({ description: 'what was tried, in a few words' }),
  ok: Type.Boolean(),
  detail: Type.String({ description: 'what was seen, or what went wrong' }),
  remedy: Type.Union([Type.String(), Type.Null()])
});
type SmokeCheck = Static<typeof SmokeCheck>;

interface SmokeTest {
  readonly environment: string;
  readonly script: string;
  /** Variables of the kernelspec: the test sees the same devices as a kernel. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Never throws for a broken environment: each problem is a failed check. */
async function runSmokeTest(test: SmokeTest): Promise<readonly SmokeCheck[]> {
  const checks: SmokeCheck[] = [];
  const unread: string[] = [];
  let result;
  try {
    result = await runProgram({
      command: pythonOf(test.environment),
      args: ['-P', '-s', test.script],
      env: { ...test.env, ...pythonFreeEnv(process.env), PYTHONUNBUFFERED: '1' },
      timeoutMs: test.timeoutMs,
      signal: test.signal,
      onLine: line => {
        const check = parseLine(line);
        if (check) checks.push(check);
        else unread.push(line);
      }
    });
  } catch (error) {
    return [failed('its Python starts', error instanceof Error ? error.message : String(error))];
  }
  if (test.signal.aborted) throw new EnvironmentError('env_interrupted', 'The check was interrupted.');
  if (result.timedOut) {
    checks.push(failed('the smoke test ends', `it was ended after ${test.timeoutMs / 1000} s`));
  } else if (result.exitCode !== 0 && checks.every(check => check.ok)) {
    // Without a failed check, the script ended early: its last output contains the reason.
    const words = unread
      .filter(line => line.trim() !== '')
      .slice(-3)
      .join(' ');
    checks.push(failed('the smoke test ends', words || `exit code ${result.exitCode ?? 'none'}`));
  } else if (checks.length === 0) {
    checks.push(failed('the smoke test reports', 'it printed no result'));
  }
  return checks;
}

function failed(check: string, detail: string): SmokeCheck {
  return { check, ok: false, detail, remedy: 'Create the environment again.' };
}

function parseLine(line: string): SmokeCheck | null {
  if (!line.startsWith('{')) return null;
  const json = jsonIn(line);
  return Value.Check(SmokeCheck, json) ? json : null;
}

/** The environment whose libtpu can compile for chips that this machine lacks. */
const COMPILER = 'aot';

/** Variables of the caller. With `TPULAB_AOT_PYTHON`, that Python has the compiler. */
interface CompilerEnv {
  readonly TPULAB_AOT_PYTHON?: string | undefined;
}

/** Whether that environment exists, or could be created here, and its size on disk. */
export async function compilerState(
  catalog: EnvironmentCatalog,
  env: CompilerEnv
): Promise<NotebookCheck['compiler']> {
  if (env.TPULAB_AOT_PYTHON !== undefined) return { state: 'ready', diskMiB: null };
  const definition = definitionNamed(await readDefinitions(catalog.definitions), COMPILER);
  const { state, diskMiB = null } = await catalog.info(COMPILER, definition);
  const canCreate = process.platform === 'linux' && process.arch === 'x64';
  return {
    state: state === 'ready' ? 'ready' : canCreate ? 'missing' : 'unsupported',
    diskMiB
  };
}

/**
 * The Python of that environment; created if it is missing, after printing its size. Throws EnvironmentError.
 *
 * @param say prints progress for a person
 */
export async function aotPython(
  catalog: EnvironmentCatalog,
  {
    env,
    print,
    progress,
    signal
  }: Pick<CreateOptions, 'progress' | 'signal'> & {
    readonly env: CompilerEnv;
    readonly print: (text: string) => void;
  }
): Promise<string> {
  if (env.TPULAB_AOT_PYTHON !== undefined) return env.TPULAB_AOT_PYTHON;
  const { state, diskMiB } = await compilerState(catalog, env);
  if (state === 'unsupported') {
    throw new EnvironmentError(
      'env_compiler_unsupported',
      'The TPU compiler exists for Linux on x86-64 only; check on such a machine: `tpulab check … --on NAME`.'
    );
  }
  if (state === 'missing') {
    const size = ((diskMiB ?? 0) / 1024).toFixed(1);
    print(`The TPU compiler is installed once, as the environment "${COMPILER}": ${size} GiB on disk.`);
    await create(catalog, COMPILER, { force: false, progress, signal });
  }
  return pythonOfEnvironment(catalog, COMPILER);
}

/** The Python of an existing environment. Throws EnvironmentError. */
export async function pythonOfEnvironment(catalog: EnvironmentCatalog, name: string): Promise<string> {
  const folder = environmentFolder(catalog.environments, name);
  const python = (await readRecord(folder))?.python ?? pythonOf(folder);
  if (existsSync(python)) return python;
  throw new EnvironmentError(
    'env_not_created',
    `There is no environment "${name}" here; create it with \`tpulab env create ${name}\`.`
  );
}
