/** Descriptions of an environment without packages: the real uv creates it within moments, without a network. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

const SMOKE_TEST = `
import json, sys
print(json.dumps({"check": "it starts", "ok": True, "detail": sys.prefix, "remedy": None}))
`;
import type { CreationProgress } from '../creation-progress.js';

/** For callers that show nothing. */
export const silentProgress: CreationProgress = {
  stage: () => undefined,
  detail: () => undefined,
  stageDone: () => undefined
};

export interface TinyFolders extends AsyncDisposable {
  readonly definitions: string;
  readonly environments: string;
}

export async function tinyFolders(): Promise<TinyFolders> {
  const folder = await mkdtemp(path.join(tmpdir(), 'tpulab-env-'));
  const definitions = path.join(folder, 'definitions');
  const environments = path.join(folder, 'envs');
  await describeTiny(definitions, 'tiny', {});
  return {
    definitions,
    environments,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true })
  };
}

export interface Tiny {
  readonly python?: string;
  readonly lock?: string;
  readonly smokeTest?: string;
  readonly agent?: boolean;
  readonly recipes?: boolean;
  readonly onDemand?: boolean;
}

/** Writes (or changes) the description of one environment. */
export async function describeTiny(definitions: string, name: string, tiny: Tiny): Promise<void> {
  const folder = path.join(definitions, name);
  await mkdir(folder, { recursive: true });
  const description = {
    displayName: `Tiny ${name}`,
    summary: 'Python alone.',
    python: tiny.python ?? '>=3.9',
    agent: tiny.agent ?? false,
    ...(tiny.onDemand === undefined ? {} : { onDemand: tiny.onDemand }),
    ...(tiny.recipes === undefined ? {} : { recipes: tiny.recipes }),
    kernelspec: {
      argv: ['-m', 'ipykernel_launcher', '-f', '{connection_file}'],
      env: { TINY: '1' },
      envDefaults: { TINY_DEVICES: '8' },
      debugger: true
    }
  };
  await writeFile(path.join(folder, 'environment.json'), JSON.stringify(description));
  await writeFile(path.join(folder, 'requirements.lock'), tiny.lock ?? '');
  await writeFile(path.join(folder, 'smoke_test.py'), tiny.smokeTest ?? SMOKE_TEST);
  await writeFile(path.join(folder, 'logo-svg.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
}
