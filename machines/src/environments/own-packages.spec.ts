/** A user's packages stay in an environment, and an environment of the user becomes a kernel. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { addedPackages } from './added-packages.js';
import { EnvironmentCatalog } from './catalog.js';
import { EnvironmentError } from './environment-error.js';
import { environmentsFolder } from './locations.js';
import { add, check, create, remove } from './operations.js';
import { describeTiny, silentProgress, type TinyFolders, tinyFolders } from './testing/tiny-definitions.js';
import { findUv } from './uv.js';

// uv and Python are started many times.
vi.setConfig({ testTimeout: 240_000 });

const run = promisify(execFile);
const signal = new AbortController().signal;
let folders: TinyFolders;
let catalog: EnvironmentCatalog;
let wheels: string;

beforeEach(async () => {
  folders = await tinyFolders();
  catalog = new EnvironmentCatalog(folders);
  wheels = await mkdtemp(path.join(tmpdir(), 'tpulab-wheels-'));
  // No index: a requested package is in this folder, or unavailable.
  vi.stubEnv('UV_FIND_LINKS', wheels);
  vi.stubEnv('UV_NO_INDEX', '1');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await folders[Symbol.asyncDispose]();
  await rm(wheels, { recursive: true });
});

/** A wheel is a zip file; Python writes one. */
async function wheel(
  name: string,
  version: string,
  modules: Readonly<Record<string, string>>
): Promise<string> {
  const info = `${name}-${version}.dist-info`;
  const files = {
    ...modules,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`,
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: spec\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${info}/RECORD`]: ''
  };
  const file = path.join(wheels, `${name}-${version}-py3-none-any.whl`);
  const code =
    'import json, sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], "w") as z:\n for n, t in json.loads(sys.argv[2]).items(): z.writestr(n, t)';
  await run('python3', ['-c', code, file, JSON.stringify(files)]);
  return file;
}

const python = (environment: string): string => path.join(environment, 'bin', 'python');

async function install(environment: string, what: string): Promise<void> {
  await run(findUv(), ['pip', 'install', '--python', python(environment), what]);
}

function make(
  more: { force?: boolean; withoutAdded?: boolean; also?: readonly string[] } = {}
): ReturnType<typeof create> {
  return create(catalog, 'tiny', { force: false, progress: silentProgress, signal, ...more });
}

async function failure(work: Promise<unknown>): Promise<EnvironmentError> {
  const error: unknown = await work.catch((reason: unknown) => reason);
  if (error instanceof EnvironmentError) return error;
  throw new Error('It did not fail with an EnvironmentError', { cause: error });
}

describe('packages that a user adds', () => {
  it(
    'are reinstalled by an update, pip is available, and they are omitted only on request',
    { tags: ['long'] },
    async () => {
      const { environment } = await make();
      const place = environment.path ?? '';
      await run(path.join(place, 'bin', 'pip'), ['--version']);
      expect(await addedPackages(place)).toEqual([]);
      await wheel('tinyneed', '1.0', { 'tinyneed.py': '' });
      await wheel('tinyadd', '1.2', { 'tinyadd.py': '' });
      await install(place, 'tinyadd');
      expect((await catalog.list())[0]).toMatchObject({
        detail: 'Added by you: tinyadd==1.2',
        added: ['tinyadd==1.2']
      });

      for (const lock of ['# another lock file', '# and another one']) {
        await describeTiny(folders.definitions, 'tiny', { lock });
        await make();
        await run(python(place), ['-c', 'import tinyadd']);
        expect(await addedPackages(place)).toEqual(['tinyadd==1.2']);
      }

      await unlink(path.join(wheels, 'tinyadd-1.2-py3-none-any.whl'));
      // Otherwise uv would find the package in its cache.
      vi.stubEnv('UV_NO_CACHE', '1');
      const error = await failure(make({ force: true }));
      expect(error.code).toBe('env_added_packages');
      expect(error.message).toContain('tinyadd==1.2');
      expect(await addedPackages(place)).toEqual(['tinyadd==1.2']);
      await make({ force: true, withoutAdded: true });
      expect(await addedPackages(place)).toEqual([]);

      await wheel('tinyadd', '1.2', { 'tinyadd.py': '' });
      await make({ force: true, also: ['tinynone==9', 'tinyadd==1.2'] });
      await run(python(place), ['-c', 'import tinyadd']);
      expect(await addedPackages(place)).toEqual(['tinyadd==1.2']);
    }
  );
});

describe('an environment of the user', () => {
  it('becomes a kernel with the agent in it, and stays unchanged when it is removed from the list', async () => {
    const project = path.join(wheels, 'My Project');
    const own = path.join(project, '.venv');
    await mkdir(project);
    await run(findUv(), ['venv', own]);
    await wheel('ipykernel', '7.4.0', { 'ipykernel/__init__.py': '' });
    const agent = await wheel('tpulab', '0.1.0', {
      'tpulab/__init__.py': '',
      'tpulab/launcher/__init__.py': ''
    });
    await mkdir(path.join(folders.definitions, 'jax'));
    const link = path.join(wheels, 'link');
    await symlink(own, link);
    for (const [place, name] of [
      [own, 'my-project'],
      [python(own), 'my-project'],
      [link, 'link']
    ] as const) {
      const info = await add(catalog, place, { name: null, agent, progress: silentProgress, signal });
      expect(info).toMatchObject({ name, state: 'ready', kernelspec: `tpulab-${name}` });
    }
    const spec = (await catalog.kernelspecs()).get('tpulab-my-project');
    expect(spec?.spec.argv[0]).toBe(python(own));
    expect(spec?.spec.argv).toContain('tpulab.launcher');
    expect(await check(catalog, 'my-project', signal)).toMatchObject({ ok: true });
    await remove(catalog, 'my-project');
    expect(existsSync(python(own))).toBe(true);

    await rename(own, `${own}-elsewhere`);
    expect((await catalog.list()).find(({ name }) => name === 'link')).toMatchObject({ state: 'broken' });
  });

  it('with the complete TPULab installed keeps it', async () => {
    const own = path.join(wheels, 'whole');
    await run(findUv(), ['venv', own]);
    await wheel('ipykernel', '7.4.0', { 'ipykernel/__init__.py': '' });
    const modules = { 'tpulab/__init__.py': '', 'tpulab/launcher/__init__.py': '' };
    await install(own, await wheel('tpulab', '0.1.0', { ...modules, 'jupyterlab_tpulab/__init__.py': '' }));
    const agent = await wheel('tpulab', '0.1.0', modules);
    await mkdir(path.join(folders.definitions, 'jax'));
    await add(catalog, own, { name: null, agent, progress: silentProgress, signal });
    await run(python(own), ['-c', 'import jupyterlab_tpulab']);
  });

  it('is refused with a sentence if it does not exist, or its name is in use', async () => {
    const nothing = await failure(add(catalog, wheels, { name: null, progress: silentProgress, signal }));
    expect(nothing.message).toContain('it has no bin/python');
    await make();
    const own = path.join(folders.environments, 'tiny');
    const taken = await failure(add(catalog, own, { name: 'tiny', progress: silentProgress, signal }));
    expect(taken.message).toContain('choose another with --name');
  });
});

describe('the list of environments', () => {
  it('includes environments behind a link', async () => {
    // They were listed as ready, but their kernels were not offered.
    const { environment } = await make();
    const elsewhere = path.join(wheels, 'tiny');
    await rename(environment.path ?? '', elsewhere);
    await symlink(elsewhere, path.join(folders.environments, 'tiny'));
    expect(await catalog.list()).toMatchObject([{ name: 'tiny', state: 'ready' }]);
    expect([...(await catalog.kernelspecs()).keys()]).toEqual(['tpulab-tiny']);
    expect(await readdir(folders.environments)).toEqual(['tiny']);
  });

  it('is the list of `npm start` for every command of a checkout', async () => {
    const checkout = path.join(wheels, 'checkout');
    await mkdir(path.join(checkout, 'scripts'), { recursive: true });
    await writeFile(path.join(checkout, 'scripts', 'start.mjs'), '');
    const envs = path.join(checkout, '.tpulab', 'envs');
    for (const program of ['kernel-bridge', '.tpulab/bridge'])
      expect(environmentsFolder(undefined, {}, path.join(checkout, program))).toBe(envs);
    expect(
      environmentsFolder(undefined, { TPULAB_ENV_DIR: '/mine' }, path.join(checkout, 'kernel-bridge'))
    ).toBe('/mine');
    expect(environmentsFolder(undefined, { XDG_DATA_HOME: '/data' }, '/lib/node_modules/tpulab')).toBe(
      '/data/tpulab/envs'
    );
  });
});
