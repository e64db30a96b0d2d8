import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EnvironmentCatalog } from './catalog.js';
import { type Accelerator, definitionNamed, readDefinitions, variantOf } from './definition.js';
import { create } from './operations.js';
import { type TinyFolders, tinyFolders, silentProgress } from './testing/tiny-definitions.js';

// uv and Python are started many times.
vi.setConfig({ testTimeout: 240_000 });

let folders: TinyFolders;
beforeEach(async () => {
  folders = await tinyFolders();
  const file = path.join(folders.definitions, 'tiny', 'environment.json');
  const description = JSON.parse(await readFile(file, 'utf8')) as object;
  const tpu = {
    displayName: 'Tiny on TPU',
    env: {},
    envDefaults: { JAX_PLATFORMS: 'tpu,cpu' },
    chips: ['v5e']
  };
  await writeFile(file, JSON.stringify({ ...description, tpu }));
  await writeFile(
    path.join(folders.definitions, 'tiny', 'requirements-tpu.lock'),
    '# libtpu would be here\n'
  );
});
afterEach(() => folders[Symbol.asyncDispose]());

function createFor(accelerator?: Accelerator) {
  return create(new EnvironmentCatalog(folders), 'tiny', {
    force: false,
    progress: silentProgress,
    signal: new AbortController().signal,
    ...(accelerator === undefined ? {} : { accelerator })
  });
}

describe('an environment with a description for TPUs', () => {
  it('has other packages and another kernelspec on a machine with chips', async () => {
    const definition = definitionNamed(await readDefinitions(folders.definitions), 'tiny');
    const onTpu = variantOf(definition, 'tpu');
    expect(path.basename(onTpu.lockFile)).toBe('requirements-tpu.lock');
    expect(onTpu.fingerprint).not.toBe(definition.fingerprint);
    expect(variantOf(definition, 'cpu')).toBe(definition);

    expect((await createFor('tpu')).environment.state).toBe('ready');
    const specs = await new EnvironmentCatalog(folders).kernelspecs();
    const made = specs.get('tpulab-tiny');
    expect(made?.spec.display_name).toBe('Tiny on TPU');
    expect(made?.envDefaults).toEqual({ JAX_PLATFORMS: 'tpu,cpu' });
  });

  it('is left alone on the same kind of machine, and recreated for the other kind', async () => {
    expect((await createFor('tpu')).result).toBe('created');
    expect((await createFor('tpu')).result).toBe('unchanged');
    expect((await createFor('cpu')).result).toBe('created');
    const specs = await new EnvironmentCatalog(folders).kernelspecs();
    expect(specs.get('tpulab-tiny')?.envDefaults).toEqual({ TINY_DEVICES: '8' });
  });

  it('is for the CPU if nothing is specified and there are no chips', async () => {
    await createFor();
    const specs = await new EnvironmentCatalog(folders).kernelspecs();
    expect(specs.get('tpulab-tiny')?.spec.display_name).toBe('Tiny tiny');
  });
});
