import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MAX_MEDIA, type MediaMessage, type RunMessage, type StepsMessage } from '@tpulab/protocol';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SourcedEvent } from './event-source.js';
import { MAX_PARTS, MAX_POINTS } from './stored-run.js';
import { RunArchive } from './run-archive.js';

const log = pino({ level: 'silent' });
const T0 = 1_790_000_000_000;

/** Events as the gateway's own source sends them. */
class Telemetry {
  readonly #listeners = new Set<(event: SourcedEvent) => void>();

  listen(listener: (event: SourcedEvent) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  report(topic: SourcedEvent['topic'], kernelId: string, reported: object, medium?: MediaMessage): void {
    const json = JSON.stringify(topic === 'kernels' ? reported : { topic, kernelId, seq: 1, data: reported });
    for (const listener of this.#listeners)
      listener({ topic, kernelId, seq: 1, json, ...(medium && { medium }) });
  }
}

function run(state: RunMessage['state'], id = 'r1', time = T0): RunMessage {
  return { type: 'run', time, run: id, name: 'train', state, totalSteps: 100, location: null };
}

function steps(first: number, count: number, id = 'r1'): StepsMessage {
  const list = Array.from({ length: count }, (_, at) => ({
    index: first + at,
    startTime: T0 + first + at,
    wallMs: 10,
    inputMs: 1,
    hostMs: 2,
    compileMs: 0,
    deviceMs: 6,
    gapMs: 1,
    deviceKnown: true,
    metrics: { loss: 1 / (first + at + 1) }
  }));
  return { type: 'steps', time: T0 + first + count, run: id, steps: list, dropped: 0 };
}

let folder: string;
let reported: Telemetry;
const archiveOf = (options: { maxRuns?: number } = {}): RunArchive =>
  new RunArchive({ folder: path.join(folder, 'runs'), events: reported, log, ...options });

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tpulab-runs-'));
  reported = new Telemetry();
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the archive of runs', () => {
  it('reports each end and each alert once, even after a replay', async () => {
    const output: string[] = [];
    const notices = {
      runEnded: (one: { name: string; state: string }, reason: string | null) =>
        void output.push([one.name, one.state, reason ?? '-'].join(' ')),
      runAlert: (one: { name: string }, { message }: { message: string }) =>
        void output.push(`${one.name}: ${message}`)
    };
    const alert = (id: string, kind = 'alert', time = T0 + 5) => ({
      ...{ type: 'advice', time, id, kind, message: id, remedy: '', location: null, run: 'r1' }
    });
    const all = (): void => {
      reported.report('runs', 'k', run('running'));
      reported.report('runs', 'k', alert('a NaN', 'non-finite-metric'));
      reported.report('runs', 'k', alert('advice', 'ragged-batch'));
      reported.report('steps', 'k', steps(0, 10));
      reported.report('runs', 'k', run('failed', 'r1', T0 + 20));
      reported.report('runs', 'k', run('running', 'r2'));
    };
    const open = () => new RunArchive({ folder: path.join(folder, 'runs'), events: reported, log, notices });
    {
      await using archive = open();
      await archive.list();
      all();
    }
    await using archive = open();
    await archive.list();
    all();
    reported.report('runs', 'k', alert('a late one', 'slower', T0 + 30));
    reported.report('kernels', 'k', { executionState: 'restarting', reason: 'killed by SIGKILL' });
    reported.report('kernels', 'k', { removed: true, reason: null });
    expect(output).toEqual([
      'train: a NaN',
      'train failed -',
      'train: a late one',
      'train interrupted killed by SIGKILL'
    ]);
    expect((await archive.read('k.r1'))?.alerts?.map(({ id }) => id)).toEqual(['a NaN', 'a late one']);
  });

  it('ends the runs of kernels that ended while no server ran, and leaves the runs of others', async () => {
    const output: string[] = [];
    const notices = {
      runEnded: (one: { name: string; state: string }, reason: string | null) =>
        void output.push([one.name, one.state, reason ?? '-'].join(' ')),
      runAlert: () => undefined
    };
    const open = () => new RunArchive({ folder: path.join(folder, 'runs'), events: reported, log, notices });
    {
      await using archive = open();
      await archive.list();
      for (const kernel of ['k', 'other']) reported.report('runs', kernel, run('running'));
    }
    await using archive = open();
    await archive.endMissing(kernelId => Promise.resolve(kernelId === 'other'));
    expect((await archive.list()).map(({ key, state }) => `${key} ${state}`).sort()).toEqual([
      'k.r1 interrupted',
      'other.r1 running'
    ]);
    expect(output).toEqual(['train interrupted while the server was down']);
  });

  it('stores sums of parts without compilations and evaluations, the programs, the machine and the notebook', async () => {
    await using archive = new RunArchive({
      ...{ folder: path.join(folder, 'runs'), events: reported, log },
      documentOf: () => 'lessons/a.ipynb'
    });
    await archive.list();
    reported.report('devices', 'k', {
      ...{ type: 'devices', time: T0, runtime: 'jax', runtimeVersion: '1', platform: 'tpu' },
      devices: Array.from({ length: 8 }, (_, id) => ({ id, kind: 'TPU v5 lite' }))
    });
    reported.report('runs', 'k', run('running'));
    const first = steps(0, 1000);
    Object.assign(first.steps[0] ?? {}, { compileMs: 500, wallMs: 510 });
    Object.assign(first.steps[400] ?? {}, { bands: { evaluate: 90 }, wallMs: 100 });
    Object.assign(first.steps[500] ?? {}, { deviceKnown: false, hostMs: 8, deviceMs: 0 });
    reported.report('steps', 'k', first);
    const compiled = {
      ...{ type: 'compile', time: T0, id: 1, phase: 'finished', function: 'step', variant: 1, run: 'r1' },
      ...{ traceMs: 1, lowerMs: 1, compileMs: 8, cacheHit: false, eager: false, location: null },
      reason: { verdict: 'first', argument: null, before: null, after: null, advice: null },
      fingerprint: 'a3f1c9'
    };
    for (const message of [
      compiled,
      compiled,
      { ...compiled, phase: 'started' },
      { ...compiled, eager: true },
      // Another function, compiled by an earlier run.
      { ...compiled, function: 'evaluate', reused: true }
    ])
      reported.report('compile', 'k', message);
    const [summary] = await archive.list();
    expect(summary).toMatchObject({ machine: 'TPU v5 lite × 8', document: 'lessons/a.ipynb', stepMs: 10 });
    const stored = await archive.read('k.r1');
    const parts = stored?.parts?.list ?? [];
    expect(parts.length).toBeLessThanOrEqual(2 * MAX_PARTS);
    expect(parts.reduce((sum, part) => sum + part.steps, 0)).toBe(998);
    expect(parts.reduce((sum, part) => sum + part.watched.steps, 0)).toBe(997);
    expect(parts.reduce((sum, part) => sum + part.watched.deviceMs, 0)).toBe(997 * 6);
    expect(parts.reduce((sum, part) => sum + part.unwatched.hostMs, 0)).toBe(8);
    expect(stored?.programs).toEqual([
      expect.objectContaining({ function: 'step', ms: 10, fingerprint: 'a3f1c9' }),
      expect.objectContaining({ function: 'evaluate', reused: true, fingerprint: 'a3f1c9' })
    ]);
    expect(stored?.programs?.[0]).not.toHaveProperty('reused');
  });

  it('stores answers that arrive before their run, and creates no run that only a refusal names', async () => {
    await using archive = archiveOf();
    await archive.list();
    const answer = (id: string, phase: string) => ({ type: 'control', time: T0, id, run: id, phase });
    reported.report('runs', 'k', answer('never', 'refused'));
    reported.report('runs', 'k', answer('r1', 'failed'));
    reported.report('runs', 'k', run('finished'));
    expect((await archive.list()).map(({ run: id }) => id)).toEqual(['r1']);
    expect((await archive.read('k.r1'))?.commands).toHaveLength(1);
  });

  it('stores pictures beside the run, the first and the newest, each once', async () => {
    const picture = (id: number) => ({
      ...{ type: 'media', time: T0 + id, run: 'r1', id, step: id, name: 'sample', mime: 'image/png' }
    });
    const send = (id: number): void =>
      reported.report('steps', 'k', picture(id), { ...picture(id), data: `data ${id}` } as MediaMessage);
    {
      await using archive = archiveOf();
      await archive.list();
      reported.report('runs', 'k', run('running'));
      for (let id = 0; id < 3 * MAX_MEDIA; id++) send(id);
      send(0);
      reported.report('runs', 'k', run('finished', 'r1', T0 + 9_000));
    }
    await using archive = archiveOf({ maxRuns: 1 });
    const ids = (await archive.read('k.r1'))?.media?.map(({ id }) => id) ?? [];
    expect(ids).toHaveLength(MAX_MEDIA);
    expect([ids[0], ids.at(-1)]).toEqual([0, 3 * MAX_MEDIA - 1]);
    const gaps = ids.slice(1).map((id, at) => id - (ids[at] ?? 0));
    expect(Math.max(...gaps)).toBeLessThan(3 * MAX_MEDIA * 0.1);
    for (const id of ids) expect((await archive.medium('k.r1', id))?.data).toBe(`data ${id}`);
    expect(await readdir(path.join(folder, 'runs', 'k.r1.media'))).toHaveLength(MAX_MEDIA);
    expect(JSON.stringify(await archive.read('k.r1'))).not.toContain('data 0');
    // They are removed together with their run.
    reported.report('runs', 'k', run('finished', 'r2', T0 + 20_000));
    await archive.write();
    expect(await archive.medium('k.r1', 0)).toBeNull();
    expect(await readdir(path.join(folder, 'runs'))).toEqual(['k.r2.json']);
  });

  it('lists from which checkpoint of which run another one was branched', async () => {
    await using archive = archiveOf();
    await archive.list();
    const control = { ...{ state: 'running', actions: [], hyperparameters: [], config: {}, log: null } };
    reported.report('runs', 'k', { ...run('running'), control });
    reported.report('runs', 'k', {
      ...run('running', 'r2', T0 + 1),
      control: { ...control, branch: { run: 'r1', step: 50 } }
    });
    expect((await archive.list()).map(({ branch }) => branch)).toEqual([{ run: 'r1', step: 50 }, undefined]);
  });

  it('keeps tags, note and group of a running and of a finished run, also over a restart', async () => {
    {
      await using archive = archiveOf();
      await archive.list();
      reported.report('runs', 'k', run('running'));
      reported.report('steps', 'k', steps(0, 5));
      expect(await archive.label('k.r1', { tags: ['keep'] })).toMatchObject({ labels: { tags: ['keep'] } });
      reported.report('runs', 'k', run('finished', 'r1', T0 + 10));
      await archive.write();
      expect(await archive.label('k.r1', { note: 'better' })).toMatchObject({ steps: 5 });
      expect(await archive.label('k.none', { note: 'x' })).toBeNull();
    }
    await using again = archiveOf();
    expect(await again.list()).toMatchObject([
      { state: 'finished', labels: { tags: ['keep'], note: 'better' } }
    ]);
  });

  it('keeps a finished run after its gateway has ended, with metrics, totals and its commands', async () => {
    {
      await using first = archiveOf();
      await first.list();
      reported.report('runs', 'k', run('running'));
      reported.report('steps', 'k', steps(0, 50));
      reported.report('runs', 'k', {
        type: 'control',
        time: T0 + 60,
        id: 'c',
        run: 'r1',
        action: 'checkpoint',
        name: null,
        value: null,
        before: null,
        origin: 'page',
        phase: 'applied',
        step: 20,
        durationMs: 5,
        reason: null
      });
      reported.report('runs', 'k', run('finished', 'r1', T0 + 100));
    }
    await using second = archiveOf();
    const [summary] = await second.list();
    expect(summary).toMatchObject({ kernelId: 'k', name: 'train', state: 'finished', steps: 50 });
    const stored = await second.read(summary?.key ?? '');
    expect(stored?.series['loss']?.steps).toEqual(Array.from({ length: 50 }, (_, at) => at));
    expect(stored?.totals).toMatchObject({ wallMs: 500, deviceMs: 300 });
    expect(stored?.commands).toMatchObject([{ id: 'c', phase: 'applied', step: 20 }]);
  });

  it('counts nothing twice when the telemetry of a running kernel is replayed to the next gateway', async () => {
    {
      await using first = archiveOf();
      await first.list();
      reported.report('runs', 'k', run('running'));
      reported.report('steps', 'k', steps(0, 30));
    }
    await using second = archiveOf();
    // Reported before the archive's files have been read, as during a gateway's start.
    reported.report('runs', 'k', run('running'));
    reported.report('steps', 'k', steps(0, 30));
    reported.report('steps', 'k', steps(30, 10));
    const [summary] = await second.list();
    const stored = await second.read(summary?.key ?? '');
    expect(stored).toMatchObject({ state: 'running', steps: 40, totals: { wallMs: 400 } });
    expect(stored?.series['loss']?.steps).toHaveLength(40);
  });

  it.each([{ removed: true }, { executionState: 'dead' }, { executionState: 'restarting' }])(
    'calls a run interrupted whose kernel has ended: %j',
    async state => {
      await using archive = archiveOf();
      await archive.list();
      reported.report('runs', 'k', run('running'));
      reported.report('steps', 'other', steps(0, 1, 'r2'));
      reported.report('kernels', 'k', state);
      const states = Object.fromEntries((await archive.list()).map(one => [one.kernelId, one.state]));
      expect(states).toEqual({ k: 'interrupted', other: 'running' });
    }
  );

  it('thins the metrics of a long run and keeps the first and the newest', async () => {
    await using archive = archiveOf();
    await archive.list();
    reported.report('runs', 'k', run('running'));
    for (let first = 0; first < 20_000; first += 200) reported.report('steps', 'k', steps(first, 200));
    const [summary] = await archive.list();
    const points = (await archive.read(summary?.key ?? ''))?.series['loss'];
    expect(points?.steps.length).toBeLessThanOrEqual(2 * MAX_POINTS);
    expect(points?.steps.length).toBeGreaterThan(MAX_POINTS / 2);
    expect(points?.steps[0]).toBe(0);
    expect(points?.steps.at(-1)).toBeGreaterThan(19_900);
    expect(summary?.metrics['loss']).toBeCloseTo(1 / 20_000);
  });

  it('keeps a spike of one step in a long run', async () => {
    await using archive = archiveOf();
    await archive.list();
    reported.report('runs', 'k', run('running'));
    for (let first = 0; first < 20_000; first += 200) {
      const message = steps(first, 200);
      const spike = message.steps[123];
      if (first === 4_000 && spike?.metrics) spike.metrics['loss'] = 777;
      reported.report('steps', 'k', message);
    }
    const [summary] = await archive.list();
    const points = (await archive.read(summary?.key ?? ''))?.series['loss'];
    expect(points?.values[points.steps.indexOf(4_123)]).toBe(777);
  });

  it('does not let a sweep in one kernel push out the runs of others', async () => {
    await using archive = archiveOf({ maxRuns: 20 });
    await archive.list();
    const began = (kernel: string, id: string, time: number): void => {
      reported.report('runs', kernel, run('running', id, time));
      reported.report('runs', kernel, run('finished', id, time + 1));
    };
    for (let at = 0; at < 5; at += 1) began('old', `mine-${at}`, T0 + at);
    for (let at = 0; at < 200; at += 1) began('sweep', `trial-${at}`, T0 + 1_000 + at * 10);
    await archive.write();
    const remaining = await archive.list();
    expect(remaining).toHaveLength(20);
    expect(remaining.filter(({ kernelId }) => kernelId === 'old')).toHaveLength(5);
    expect(remaining.some(({ run: id }) => id === 'trial-199')).toBe(true);
  });

  it('keeps values that arrived after the end, and the curve of a run that continues in another cell', async () => {
    await using archive = archiveOf();
    await archive.list();
    reported.report('runs', 'k', run('running'));
    reported.report('steps', 'k', steps(0, 20));
    reported.report('runs', 'k', run('finished', 'r1', T0 + 100));
    await archive.write();
    const figures = { type: 'figures', time: T0 + 200, run: 'r1', step: 19, metrics: { accuracy: 0.9 } };
    reported.report('steps', 'k', figures);
    reported.report('runs', 'k', run('running', 'r1', T0 + 300));
    reported.report('steps', 'k', { ...steps(20, 20), time: T0 + 400 });
    const [summary] = await archive.list();
    expect(summary).toMatchObject({ steps: 40, metrics: { accuracy: 0.9 }, startedAt: T0 });
    const series = (await archive.read(summary?.key ?? ''))?.series;
    expect(series?.['loss']?.steps).toHaveLength(40);
    expect(series?.['accuracy']).toMatchObject({ steps: [19], values: [0.9] });
  });

  it('removes the oldest runs, and never one that continues', async () => {
    await using archive = archiveOf({ maxRuns: 3 });
    await archive.list();
    reported.report('runs', 'k', run('running', 'long', T0 - 1_000));
    for (let n = 0; n < 5; n += 1) {
      reported.report('runs', 'k', run('running', `r${n}`, T0 + n));
      reported.report('runs', 'k', run('finished', `r${n}`, T0 + n));
      await archive.write();
    }
    expect((await archive.list()).map(one => one.run)).toEqual(['r4', 'r3', 'long']);
    expect(await readdir(path.join(folder, 'runs'))).toHaveLength(3);
  });

  it('continues without a damaged file', async () => {
    {
      await using first = archiveOf();
      await first.list();
      reported.report('runs', 'k', run('running'));
      reported.report('runs', 'k', run('finished'));
    }
    await writeFile(path.join(folder, 'runs', 'broken.json'), '{"v":1,');
    await using second = archiveOf();
    expect(await second.list()).toHaveLength(1);
    expect(await second.read('broken')).toBeNull();
    expect(await second.read('../../etc/passwd')).toBeNull();
  });
});
