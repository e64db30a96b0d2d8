/** What the machine did: every sample goes into all tiers, and closed points to disk, so that a new gateway has them too. */
import type { DevicesHistory, MachineSample } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { HistoryFile } from './history-file.js';
import { type HistoryPoint, HistoryTier, type Tier, TIERS } from './history-tier.js';

/** How long closed points may wait for the disk; a gateway that is killed loses no more. */
const WRITE_MS = 10_000;
/** While the disk refuses, as many closed points of a tier wait. */
const MAX_WAITING = 600;

interface Kept {
  readonly tier: Tier;
  readonly memory: HistoryTier;
  readonly file: HistoryFile;
  waiting: HistoryPoint[];
}

export interface HistoryOptions {
  readonly folder: string;
  readonly log: Logger;
  readonly tiers?: readonly Tier[];
}

export class History implements AsyncDisposable {
  readonly #kept: readonly Kept[];
  readonly #log: Logger;
  #lastWriteMs = performance.now();
  #writing: Promise<void> = Promise.resolve();
  #isRefused = false;

  constructor({ folder, log, tiers = TIERS }: HistoryOptions) {
    this.#log = log;
    this.#kept = tiers.map(tier => ({
      tier,
      memory: new HistoryTier(tier),
      file: new HistoryFile({ folder, ...tier }),
      waiting: []
    }));
  }

  /** What an earlier gateway wrote. Not being able to read it is no reason to be without a sampler. */
  async load(): Promise<void> {
    for (const { memory, file, tier } of this.#kept) {
      try {
        for (const point of await file.load()) memory.restore(point);
      } catch (error) {
        this.#log.warn({ err: error, tierS: tier.stepS }, 'the history of the machine could not be read');
      }
    }
  }

  add(sample: MachineSample): void {
    const figures = figuresOf(sample);
    for (const kept of this.#kept) {
      const closed = kept.memory.add(sample.time, figures);
      if (closed) kept.waiting = [...kept.waiting, closed].slice(-MAX_WAITING);
    }
    if (performance.now() - this.#lastWriteMs >= WRITE_MS) void this.write();
  }

  /** Resolves when what is waiting now has been written, or could not be. */
  write(): Promise<void> {
    this.#lastWriteMs = performance.now();
    return (this.#writing = this.#writing.then(() => this.#write()));
  }

  read(tierS: number, fromMs = 0): DevicesHistory {
    const points = this.#kept.find(({ tier }) => tier.stepS === tierS)?.memory.points(fromMs) ?? [];
    const series: DevicesHistory['series'] = {};
    for (const [row, { names, values }] of points.entries()) {
      for (const [index, name] of names.entries()) {
        const nothing = (): null[] => new Array<null>(points.length).fill(null);
        const columns = (series[name] ??= { min: nothing(), mean: nothing(), max: nothing() });
        columns.min[row] = values[index * 3] ?? null;
        columns.mean[row] = values[index * 3 + 1] ?? null;
        columns.max[row] = values[index * 3 + 2] ?? null;
      }
    }
    return { tierS, times: points.map(({ time }) => time), series };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const kept of this.#kept) {
      const closed = kept.memory.close();
      if (closed) kept.waiting.push(closed);
    }
    await this.write();
  }

  async #write(): Promise<void> {
    for (const kept of this.#kept) {
      const points = kept.waiting;
      kept.waiting = [];
      try {
        await kept.file.append(points);
        this.#isRefused = false;
      } catch (error) {
        kept.waiting = [...points, ...kept.waiting].slice(-MAX_WAITING);
        if (!this.#isRefused) this.#log.warn({ err: error }, 'the history of the machine cannot be written');
        this.#isRefused = true;
      }
    }
  }
}

/** Series by name; what is not known has no point. */
function figuresOf({ host, devices, sdk }: MachineSample): Map<string, number> {
  const figures = new Map<string, number>();
  const add = (prefix: string, of: object, leaveOut: readonly string[]): void => {
    for (const [name, value] of Object.entries(of) as [string, unknown][])
      if (typeof value === 'number' && !leaveOut.includes(name)) figures.set(`${prefix}.${name}`, value);
  };
  add('host', host, ['cores']);
  for (const device of devices) add(`device.${device.ordinal}`, device, ['ordinal', 'chip', 'idleS']);
  // The SDK tells them in the order of the devices, without their numbers.
  sdk?.tensorCorePercent.forEach((percent, at) => {
    if (percent !== null) figures.set(`device.${devices[at]?.ordinal ?? at}.tensorCorePercent`, percent);
  });
  return figures;
}
