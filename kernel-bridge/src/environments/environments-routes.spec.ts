import { existsSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EnvironmentCreation } from '@tpulab/protocol';
import {
  copyLessons,
  EnvironmentCatalog,
  EnvironmentCreations,
  lessonsFolder
} from '../../../machines/src/environments/index.js';
import {
  describeTiny,
  type TinyFolders,
  tinyFolders
} from '../../../machines/src/environments/testing/tiny-definitions.js';
import { TemporaryGateway } from '../testing/temporary-gateway.js';

vi.setConfig({ testTimeout: 240_000 });

describe('the creation of an environment that a client requests', () => {
  let folders: TinyFolders;
  let creations: EnvironmentCreations;
  beforeEach(async () => {
    folders = await tinyFolders();
    creations = new EnvironmentCreations(new EnvironmentCatalog(folders));
  });
  afterEach(async () => {
    await creations[Symbol.asyncDispose]();
    await folders[Symbol.asyncDispose]();
  });
  const ended = (): Promise<EnvironmentCreation> =>
    vi.waitFor(
      () => {
        const status = creations.status('tiny');
        expect(status.state).not.toBe('running');
        return status;
      },
      { timeout: 200_000 }
    );

  it('shows its stages, and is joined by requests for the same environment', async () => {
    expect(creations.status('tiny')).toMatchObject({ state: 'idle', stages: [] });
    expect(creations.start('tiny')).toMatchObject({ state: 'running' });
    creations.start('tiny');
    const done = await ended();
    expect(done).toMatchObject({ state: 'done', error: null, detail: null });
    expect(done.stages.map(({ title, state }) => [title, state])).toEqual([
      ['making the environment', 'done'],
      ['installing 0 packages', 'done']
    ]);
    expect(await creations.list()).toMatchObject([{ name: 'tiny', state: 'ready' }]);
  });

  it('reports in which stage it failed, why, and the remedy', async () => {
    await describeTiny(folders.definitions, 'tiny', { python: '>=3.99' });
    creations.start('tiny');
    const failed = await ended();
    expect(failed).toMatchObject({ state: 'failed', error: { code: 'env_python' } });
    expect(failed.stages).toMatchObject([{ title: 'making the environment', state: 'failed' }]);
  });

  it('leaves nothing when it is cancelled', async () => {
    creations.start('tiny');
    await creations.cancel('tiny');
    expect(creations.status('tiny').state).toBe('cancelled');
    expect(await readdir(folders.environments)).toEqual([]);
  });
});

describe('the routes of environments and lessons', () => {
  let running: TemporaryGateway;
  beforeEach(async () => {
    running = await TemporaryGateway.start();
    await running.gateway.ready;
  });
  afterEach(() => running[Symbol.asyncDispose]());

  it('list available environments, with their size and the progress of their creation', async () => {
    const { body } = await running.rest('GET', '/bridge/v1/environments');
    expect(body).toContainEqual(expect.objectContaining({ name: 'jax', state: 'available', diskMiB: 1200 }));
    expect(await running.rest('GET', '/bridge/v1/environments/jax/creation')).toMatchObject({
      status: 200,
      body: { name: 'jax', state: 'idle' }
    });
  });

  it.each(['GET', 'POST', 'DELETE'])(
    '%s of an environment that nobody has described is 404',
    async method => {
      expect(await running.rest(method, '/bridge/v1/environments/nope/creation')).toMatchObject({
        status: 404,
        body: { code: 'env_unknown' }
      });
    }
  );

  it('copy the lessons to a folder that the file browser shows', async () => {
    const { status, body } = await running.rest('POST', '/bridge/v1/examples');
    expect({ status, body }).toMatchObject({ status: 200, body: { folder: 'tpulab-lessons', kept: [] } });
    const lessons = await readdir(path.join(running.folder, 'tpulab-lessons'));
    expect(lessons).toContain('00-getting-started.ipynb');
    // A person works in one of them and has removed another.
    const mine = path.join(running.folder, 'tpulab-lessons', '00-getting-started.ipynb');
    await writeFile(mine, 'my work');
    await rm(path.join(running.folder, 'tpulab-lessons', '05-ddpm.ipynb'));
    const again = await running.rest('POST', '/bridge/v1/examples');
    expect(again.body).toMatchObject({ folder: 'tpulab-lessons', copied: ['05-ddpm.ipynb'] });
    expect(await readFile(mine, 'utf8')).toBe('my work');
  });

  it('report why the lessons cannot be copied, and where they can be', async () => {
    await writeFile(path.join(running.folder, 'tpulab-lessons'), 'a file of somebody');
    const { status, body } = await running.rest('POST', '/bridge/v1/examples');
    expect({ status, body }).toMatchObject({ status: 500, body: { code: 'lessons_not_written' } });
    expect((body as { message: string }).message).toMatch(/a file has its name.*"tpulab examples FOLDER"/);
  });

  it('do not copy the lessons if people work directly in a checkout', async () => {
    const { folder } = await copyLessons(path.join(running.folder, 'elsewhere'));
    const from = lessonsFolder();
    await using here = await TemporaryGateway.start({ rootDir: from });
    await here.gateway.ready;
    const { body } = await here.rest('POST', '/bridge/v1/examples');
    expect(body).toMatchObject({ folder: '', copied: [] });
    expect((body as { kept: string[] }).kept).toEqual(await readdir(folder));
    expect(existsSync(path.join(from, 'tpulab-lessons'))).toBe(false);
  });
});
