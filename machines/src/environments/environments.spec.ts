import { access, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EnvironmentCatalog } from './catalog.js';
import { readDefinitions } from './definition.js';
import { EnvironmentError } from './environment-error.js';
import { type CreateResult, check, create, remove } from './operations.js';
import { type TinyFolders, describeTiny, tinyFolders, silentProgress } from './testing/tiny-definitions.js';

// uv and Python are started many times; if an index is unreachable, uv retries for 8 s.
vi.setConfig({ testTimeout: 240_000 });

let folders: TinyFolders;
let catalog: EnvironmentCatalog;
const never = new AbortController().signal;

beforeEach(async () => {
  folders = await tinyFolders();
  catalog = new EnvironmentCatalog(folders);
});
afterEach(async () => {
  await folders[Symbol.asyncDispose]();
});

function make(
  name: string,
  more: { force?: boolean; python?: string; agent?: string; recipes?: string } = {}
): Promise<CreateResult> {
  return create(catalog, name, { force: false, progress: silentProgress, signal: never, ...more });
}

async function failure(work: Promise<unknown>): Promise<EnvironmentError> {
  const error: unknown = await work.then(
    () => null,
    (reason: unknown) => reason
  );
  if (error instanceof EnvironmentError) return error;
  throw new Error('It did not fail with an EnvironmentError', { cause: error });
}

describe('an environment with a description', () => {
  it('is listed as available until it is created', async () => {
    expect(await catalog.list()).toEqual([
      {
        name: 'tiny',
        displayName: 'Tiny tiny',
        kernelspec: 'tpulab-tiny',
        state: 'available',
        path: null,
        detail: 'Python alone.',
        diskMiB: null
      }
    ]);
    expect(await catalog.kernelspecs()).toEqual(new Map());
  });

  it('is ready and has a kernelspec once it is created', async () => {
    const { result, environment } = await make('tiny');
    expect(result).toBe('created');
    expect(environment).toMatchObject({ state: 'ready', path: path.join(folders.environments, 'tiny') });
    const spec = (await catalog.kernelspecs()).get('tpulab-tiny');
    expect(spec?.spec).toEqual({
      argv: [
        path.join(folders.environments, 'tiny', 'bin', 'python'),
        '-m',
        'ipykernel_launcher',
        '-f',
        '{connection_file}'
      ],
      display_name: 'Tiny tiny',
      language: 'python',
      interrupt_mode: 'signal',
      env: { TINY: '1' },
      metadata: { debugger: true, tpulab: { environment: 'tiny' } }
    });
    expect(spec?.envDefaults).toEqual({ TINY_DEVICES: '8' });
    const resourceDir = spec?.resourceDir ?? '';
    expect(await readdir(resourceDir)).toEqual(expect.arrayContaining(['kernel.json', 'logo-svg.svg']));
    const file = JSON.parse(await readFile(path.join(resourceDir, 'kernel.json'), 'utf8')) as {
      env: unknown;
    };
    expect(file.env).toEqual({ TINY: '1', TINY_DEVICES: '8' });
  });

  it('leaves nothing beside itself once it is created', async () => {
    await make('tiny');
    expect(await readdir(folders.environments)).toEqual(['tiny']);
  });

  it('is left alone when it is requested again, and recreated on a forced request', async () => {
    await make('tiny');
    const mark = path.join(folders.environments, 'tiny', 'mark');
    await writeFile(mark, '');
    expect((await make('tiny')).result).toBe('unchanged');
    await access(mark);
    expect((await make('tiny', { force: true })).result).toBe('created');
    await expect(access(mark)).rejects.toThrow();
  });

  it('is outdated when its lock file changes, still has its kernelspec, and is recreated', async () => {
    await make('tiny');
    await describeTiny(folders.definitions, 'tiny', { lock: '# another\n' });
    expect((await catalog.list())[0]?.state).toBe('outdated');
    expect((await catalog.kernelspecs()).has('tpulab-tiny')).toBe(true);
    const checked = await check(catalog, 'tiny', never);
    expect(checked.ok).toBe(false);
    expect(checked.checks[0]).toMatchObject({ ok: false, remedy: 'Run `tpulab env create tiny`.' });
    expect((await make('tiny')).result).toBe('created');
    expect((await check(catalog, 'tiny', never)).ok).toBe(true);
  });

  it('comes before an added one, and both before one that a command created for itself', async () => {
    await describeTiny(folders.definitions, 'aot', { onDemand: true });
    await describeTiny(folders.definitions, 'mine', {});
    for (const name of ['aot', 'mine', 'tiny']) await make(name);
    await rm(path.join(folders.definitions, 'mine'), { recursive: true });
    const names = [...(await catalog.kernelspecs()).keys()];
    expect(names).toEqual(['tpulab-tiny', 'tpulab-mine', 'tpulab-aot']);
  });

  it('works after its folder has been moved', async () => {
    await make('tiny');
    const moved = `${folders.environments}-moved`;
    await rename(folders.environments, moved);
    try {
      catalog = new EnvironmentCatalog({ ...folders, environments: moved });
      const { ok, checks } = await check(catalog, 'tiny', never);
      expect(ok).toBe(true);
      expect(checks.map(each => each.detail)).toContain(path.join(moved, 'tiny'));
      const spec = (await catalog.kernelspecs()).get('tpulab-tiny');
      expect(spec?.spec.argv[0]).toBe(path.join(moved, 'tiny', 'bin', 'python'));
    } finally {
      await rm(moved, { recursive: true, force: true });
    }
  });

  it('is removed as a whole', async () => {
    await make('tiny');
    await remove(catalog, 'tiny');
    expect(await readdir(folders.environments)).toEqual([]);
    expect((await failure(remove(catalog, 'tiny'))).code).toBe('env_not_created');
  });
});

describe('the check of an environment', () => {
  it('reports that it is not created, and how to create it', async () => {
    const { ok, checks } = await check(catalog, 'tiny', never);
    expect(ok).toBe(false);
    expect(checks).toEqual([
      { check: 'it is created', ok: false, detail: 'it is not', remedy: 'Run `tpulab env create tiny`.' }
    ]);
  });

  it('shows the results of its smoke test, with a remedy', async () => {
    await describeTiny(folders.definitions, 'tiny', {
      smokeTest:
        'import json, sys\nprint(json.dumps({"check": "sums", "ok": False, "detail": "1 + 1 was 3", "remedy": None}))\nsys.exit(1)'
    });
    await make('tiny');
    const { ok, checks } = await check(catalog, 'tiny', never);
    expect(ok).toBe(false);
    expect(checks.at(-1)).toEqual({
      check: 'sums',
      ok: false,
      detail: '1 + 1 was 3',
      remedy: 'Run `tpulab env create tiny --force`.'
    });
  });

  it('does not accept a smoke test that ends early', async () => {
    await describeTiny(folders.definitions, 'tiny', {
      smokeTest: 'raise SystemExit("the library is damaged")'
    });
    await make('tiny');
    const { ok, checks } = await check(catalog, 'tiny', never);
    expect(ok).toBe(false);
    expect(checks.at(-1)?.detail).toContain('the library is damaged');
  });

  it('reports an environment as broken if its Python is missing', async () => {
    await make('tiny');
    await rm(path.join(folders.environments, 'tiny', 'bin', 'python'));
    expect((await catalog.list())[0]?.state).toBe('broken');
    expect((await catalog.kernelspecs()).size).toBe(0);
    expect((await check(catalog, 'tiny', never)).ok).toBe(false);
    expect((await make('tiny')).result).toBe('created');
  });
});

describe('a creation that cannot succeed', () => {
  it('suggests the nearest valid name', async () => {
    const error = await failure(make('tinny'));
    expect(error.code).toBe('env_unknown');
    expect(error.message).toContain('did you mean "tiny"?');
  });

  it('reports which Python is missing and leaves nothing', async () => {
    await describeTiny(folders.definitions, 'tiny', { python: '>=3.99' });
    const error = await failure(make('tiny'));
    expect(error.code).toBe('env_python');
    expect(error.message).toContain('>=3.99');
    expect(await readdir(folders.environments)).toEqual([]);
  });

  it('reports that the package index cannot be reached and leaves nothing', async () => {
    const lock = `no-such-package-of-ours==1.0 --hash=sha256:${'0'.repeat(64)}\n`;
    await describeTiny(folders.definitions, 'tiny', {
      lock: `--index-url http://127.0.0.1:9/simple\n${lock}`
    });
    const error = await failure(make('tiny'));
    expect(error.code).toBe('env_network');
    expect(await readdir(folders.environments)).toEqual([]);
  });

  it('reports that the agent is missing', async () => {
    await describeTiny(folders.definitions, 'tiny', { agent: true });
    const error = await failure(make('tiny', { agent: path.join(folders.definitions, 'nowhere') }));
    expect(error.code).toBe('env_agent_missing');
  });

  it('reports that the named recipes are missing, and creates nothing', async () => {
    await describeTiny(folders.definitions, 'tiny', { recipes: true });
    const nowhere = path.join(folders.definitions, 'no-recipes');
    const error = await failure(make('tiny', { recipes: nowhere }));
    expect(error.code).toBe('env_recipes_missing');
    expect(error.message).toContain(nowhere);
    expect((await catalog.list())[0]?.state).toBe('available');
  });

  it('reports that the folder of environments is not a folder', async () => {
    await writeFile(folders.environments, '');
    expect((await failure(make('tiny'))).code).toBe('env_permission');
  });

  it.each(['/proc/x', '/dev/null/x', `/tmp/${'long'.repeat(99)}`, '/tmp/a\nb'])(
    'reports that %j cannot hold environments',
    async environments => {
      catalog = new EnvironmentCatalog({ ...folders, environments });
      expect(await failure(make('tiny'))).toMatchObject({
        code: 'env_permission',
        message: expect.stringContaining('cannot hold environments') as unknown
      });
    }
  );

  it('names the file of an invalid description, and the error in it', async () => {
    await writeFile(path.join(folders.definitions, 'tiny', 'environment.json'), '{"displayName": 3}');
    const error = await failure(make('tiny'));
    expect(error.code).toBe('env_definition_invalid');
    expect(error.message).toContain(path.join(folders.definitions, 'tiny', 'environment.json'));
  });

  it('refuses a description with a duplicate name, where only the last would count', async () => {
    const file = path.join(folders.definitions, 'tiny', 'environment.json');
    const once = await readFile(file, 'utf8');
    await writeFile(file, once.replace('{', '{"diskMiB": 1, "diskMiB": 2, '));
    const error = await failure(make('tiny'));
    expect(error.code).toBe('env_definition_invalid');
    expect(error.message).toContain('/diskMiB is there twice');
  });

  it('reads the descriptions of this project', async () => {
    const described = await readDefinitions(fileURLToPath(new URL('../../../environments', import.meta.url)));
    expect(described.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['jax', 'torch-tpu', 'torch-xla'])
    );
  });

  it('does not remove a folder that it did not create', async () => {
    await mkdir(path.join(folders.environments, 'mine'), { recursive: true });
    expect((await failure(remove(catalog, 'mine'))).code).toBe('env_not_created');
    await access(path.join(folders.environments, 'mine'));
  });
});
