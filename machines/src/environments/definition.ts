/** An environment as `environments/<name>/` describes it: environment.json, the lock file, the smoke test. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { nearestName } from '@tpulab/platform/nearest-name.js';
import { EnvironmentError } from './environment-error.js';

const DESCRIPTION_FILE = 'environment.json';

/** environment.json */
export const Description = Type.Object(
  {
    displayName: Type.String({ minLength: 1, description: 'what a person reads in the launcher' }),
    summary: Type.String({ description: 'one sentence: what is in it' }),
    python: Type.String({ minLength: 1, description: 'version range that uv understands' }),
    agent: Type.Boolean({ description: 'whether the package `tpulab` is installed into it' }),
    recipes: Type.Optional(
      Type.Boolean({ description: 'whether `tpulab_recipes`, which the notebooks use, is installed into it' })
    ),
    diskMiB: Type.Optional(
      Type.Integer({ minimum: 1, description: 'what it takes with its downloads, roughly' })
    ),
    onDemand: Type.Optional(
      Type.Boolean({ description: 'made by the command that needs it, and listed once it exists' })
    ),
    tpu: Type.Optional(
      Type.Object(
        {
          displayName: Type.String({ minLength: 1 }),
          diskMiB: Type.Optional(Type.Integer({ minimum: 1 })),
          env: Type.Record(Type.String(), Type.String()),
          envDefaults: Type.Record(Type.String(), Type.String()),
          chips: Type.Array(Type.String(), {
            description: 'generations that its libtpu drives, as in the table of chips'
          })
        },
        {
          additionalProperties: false,
          description:
            'what differs on a machine with TPU chips; with `requirements-tpu.lock`, where there is one'
        }
      )
    ),
    kernelspec: Type.Object({
      argv: Type.Array(Type.String(), { minItems: 1, description: 'after the Python of the environment' }),
      env: Type.Record(Type.String(), Type.String()),
      envDefaults: Type.Record(Type.String(), Type.String(), { description: "the user's own value wins" }),
      debugger: Type.Boolean()
    })
  },
  { additionalProperties: false }
);
export type Description = Static<typeof Description>;

export interface Definition {
  readonly name: string;
  readonly folder: string;
  readonly description: Description;
  readonly lockFile: string;
  /** A hash of everything on which a created environment depends; another value means `outdated`. */
  readonly fingerprint: string;
  readonly smokeTest: string;
  /** The variant for machines with TPU chips. */
  readonly onTpu?: Pick<Definition, 'lockFile' | 'fingerprint'>;
}

const NAME = /^[a-z0-9][a-z0-9-]*$/;

/** The hardware that kernels of an environment use. */
export type Accelerator = 'cpu' | 'tpu';

/** The definition for one kind of machine. An environment without a TPU description is the same on all machines. */
export function variantOf(definition: Definition, accelerator: Accelerator): Definition {
  const { tpu } = definition.description;
  if (accelerator === 'cpu' || tpu === undefined) return definition;
  const { displayName, env, envDefaults, diskMiB } = tpu;
  const { kernelspec } = definition.description;
  return {
    ...definition,
    ...definition.onTpu,
    description: {
      ...definition.description,
      displayName,
      ...(diskMiB === undefined ? {} : { diskMiB }),
      kernelspec: { ...kernelspec, env, envDefaults }
    }
  };
}

/** Name of an environment's kernelspec. Notebooks store it, so it must never change (docs/decisions/0004). */
export function kernelspecName(environment: string): string {
  return `tpulab-${environment}`;
}

/** Every folder with an environment.json; folders without one describe tools, not kernels. */
export async function readDefinitions(folder: string): Promise<Definition[]> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    throw new EnvironmentError(
      'env_definitions_missing',
      `There are no environment descriptions in ${folder}; name their folder with --definitions.`,
      { cause: error }
    );
  }
  const found: Definition[] = [];
  for (const name of names.filter(candidate => NAME.test(candidate)).sort()) {
    const definition = await readDefinition(folder, name);
    if (definition) found.push(definition);
  }
  return found;
}

export function definitionNamed(definitions: readonly Definition[], name: string): Definition {
  const definition = definitions.find(candidate => candidate.name === name);
  if (definition) return definition;
  const names = definitions.map(candidate => candidate.name);
  const near = nearestName(name, names);
  const available = names.length === 0 ? 'none is described' : `known: ${names.join(', ')}`;
  const hint = near === null ? `choose a known one (${available})` : `did you mean "${near}"? (${available})`;
  throw new EnvironmentError('env_unknown', `There is no environment "${name}"; ${hint}.`);
}

async function readDefinition(parent: string, name: string): Promise<Definition | null> {
  const folder = path.join(parent, name);
  const file = path.join(folder, DESCRIPTION_FILE);
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw invalid(name, file, 'it cannot be read', error);
  }
  const description = parse(name, file, text);
  const smokeTest = path.join(folder, 'smoke_test.py');
  const common = await locked(name, text, path.join(folder, 'requirements.lock'));
  const tpuLock = path.join(folder, 'requirements-tpu.lock');
  if (description.tpu === undefined || !existsSync(tpuLock))
    return { name, folder, description, smokeTest, ...common };
  return { name, folder, description, smokeTest, ...common, onTpu: await locked(name, text, tpuLock) };
}

async function locked(
  name: string,
  description: string,
  lockFile: string
): Promise<Pick<Definition, 'lockFile' | 'fingerprint'>> {
  let lock: Buffer;
  try {
    lock = await readFile(lockFile);
  } catch (error) {
    throw invalid(name, lockFile, 'it cannot be read (`npm run lock` makes it)', error);
  }
  const fingerprint = createHash('sha256').update(description).update('\0').update(lock).digest('hex');
  return { lockFile, fingerprint };
}

function parse(name: string, file: string, text: string): Description {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw invalid(name, file, 'it is not JSON', error);
  }
  const duplicate = duplicateKey(text);
  if (duplicate !== null) throw invalid(name, file, `${duplicate} is there twice`);
  if (Value.Check(Description, json)) return json;
  const first = Value.Errors(Description, json).First();
  throw invalid(name, file, first ? `${first.path || '/'}: ${first.message}` : 'it has another shape');
}

function invalid(name: string, file: string, why: string, cause?: unknown): EnvironmentError {
  return new EnvironmentError(
    'env_definition_invalid',
    `The description of "${name}" cannot be used: ${why}; correct ${file}.`,
    { cause }
  );
}

/** A string, with the colon that makes it a name, or the start or the end of an object. */
const TOKENS = /"(?:[^"\\]|\\.)*"(?:\s*:)?|[{}]/gu;

/**
 * `JSON.parse` silently uses the last value of a name that an object contains twice.
 * @param text valid JSON
 * @returns the path of the first repeated name, such as `/tpu/diskMiB`; null if there is none
 */
export function duplicateKey(text: string): string | null {
  const open: { readonly seen: Set<string>; latest: string }[] = [];
  for (const [token] of text.matchAll(TOKENS)) {
    const inner = open.at(-1);
    if (token === '{') open.push({ seen: new Set(), latest: '' });
    else if (token === '}') open.pop();
    else if (token.endsWith(':') && inner !== undefined) {
      // Parsed instead of compared as text: a name may contain escapes.
      inner.latest = String(JSON.parse(token.slice(0, -1)));
      if (inner.seen.has(inner.latest)) return `/${open.map(({ latest }) => latest).join('/')}`;
      inner.seen.add(inner.latest);
    }
  }
  return null;
}
