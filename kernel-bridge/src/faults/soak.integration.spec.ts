/**
 * Steady output, clients that come and go, executions, restarts: the resources of gateway and keeper must not grow.
 * `npm run soak` runs it for long and checks for growth; `npm test` runs it briefly and checks that everything is released when
 * all clients have left.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { bridgeBuild } from './testing/bridge-build.js';
import { type Growth, growthOf, isGrowing } from './testing/growth.js';
import { marksOf } from './testing/numbered-output.js';
import { Scene } from './testing/scene.js';
import { soakLoad } from './testing/soak-load.js';

const MINUTES = Number(process.env['TPULAB_SOAK_MINUTES'] ?? '0');
const REPORT = process.env['TPULAB_SOAK_REPORT'];
const IS_LONG = MINUTES > 0;
const LOAD_MS = IS_LONG ? MINUTES * 60_000 : 8_000;
const SAMPLE_MS = IS_LONG ? 5_000 : 2_000;
/** Caches and compiled code grow at the beginning. */
const WARM_UP = 0.25;
const PER_SECOND = 200;

const MB = 1024 * 1024;
/**
 * How much each value may grow over a run, whatever its length, because slow changes are normal. `held` is the memory that
 * the process itself uses, after a collection; `rss` also includes the allocator's reserve.
 */
const ALLOWED = { rss: 48 * MB, held: 4 * MB, timers: 6, handles: 6, descriptors: 6 } as const;
type Figure = keyof typeof ALLOWED;
type Sample = Record<Figure, number> & { readonly at: number };

/** Makes a process write a sample, and reads all its samples. */
async function sample(scene: Scene, pid: number): Promise<Sample[]> {
  const file = path.join(scene.stateDir, 'samples', String(pid));
  const read = (): Sample[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          // After the last line end there may be an incomplete sample.
          .slice(0, -1)
          .map(line => JSON.parse(line) as Sample)
      : [];
  const before = read().length;
  process.kill(pid, 'SIGUSR2');
  await scene.until(() => read().length > before, `a sample of process ${pid}`);
  return read();
}

function describeGrowth(name: string, figure: Figure, { overRun, perHour, error, mean }: Growth): string {
  const [unit, digits] = figure === 'rss' || figure === 'held' ? [MB, 2] : [1, 1];
  const show = (value: number): string => (value / unit).toFixed(digits);
  const what = `${name} ${figure}${unit === MB ? ' (MB)' : ''}`;
  return `${what.padEnd(24)} mean ${show(mean)}, over the run ${show(overRun)} ± ${show(error)}, an hour ${show(perHour)}`;
}

it(
  'a bridge uses no more resources after long use than at the beginning',
  { tags: ['long'], timeout: LOAD_MS * 2 + 300_000 },
  async () => {
    await using scene = await Scene.start({ program: await bridgeBuild({ sampled: true }) });
    const second = await scene.bridge.rest('POST', 'api/kernels', { name: 'lossless' });
    const busyKernel = (second.body as { id: string }).id;
    const watcher = await scene.client('ours');
    const count = Math.ceil((LOAD_MS / 1000) * PER_SECOND);
    await scene.print(watcher, { count, perSecond: PER_SECOND });
    const pids = { gateway: scene.bridge.pid, keeper: scene.keeper!.pid };
    const first = {
      gateway: (await sample(scene, pids.gateway)).at(-1)!,
      keeper: (await sample(scene, pids.keeper)).at(-1)!
    };

    const stopping = new AbortController();
    const load = soakLoad(scene, busyKernel, stopping.signal);
    const until = performance.now() + LOAD_MS;
    while (performance.now() < until) {
      await Promise.race([delay(SAMPLE_MS), load]);
      await sample(scene, pids.gateway);
      await sample(scene, pids.keeper);
    }
    const loaded = { gateway: await sample(scene, pids.gateway), keeper: await sample(scene, pids.keeper) };
    stopping.abort();
    const counts = await load;
    // Waits for the idle status too: the reply alone may arrive before the last output.
    await watcher.until(() => watcher.isAnswered, 'for the end of the output', LOAD_MS + 120_000);
    expect(marksOf(count, watcher.shown)).toMatchObject({ lost: 0, doubled: 0, reordered: 0 });

    // All clients but the watcher have left: their resources must be released too.
    for (const name of ['gateway', 'keeper'] as const) {
      await scene.until(async () => {
        const now = (await sample(scene, pids[name])).at(-1)!;
        return now.descriptors <= first[name].descriptors + 2 && now.handles <= first[name].handles + 2;
      }, `descriptors and handles of the ${name} to be what they were`);
    }
    if (!IS_LONG) return;

    const growing: string[] = [];
    const lines = [`${MINUTES} min: ${JSON.stringify(counts)}, ${count} numbered outputs`];
    for (const name of ['gateway', 'keeper'] as const) {
      const samples = loaded[name].slice(Math.floor(loaded[name].length * WARM_UP));
      for (const figure of Object.keys(ALLOWED) as Figure[]) {
        const growth = growthOf(
          samples.map(({ at }) => at),
          samples.map(one => one[figure])
        );
        const line = describeGrowth(name, figure, growth);
        lines.push(line);
        if (isGrowing(growth, ALLOWED[figure])) growing.push(line);
      }
    }
    if (REPORT !== undefined) writeFileSync(REPORT, JSON.stringify({ lines, loaded }));
    expect(growing).toEqual([]);
  }
);
