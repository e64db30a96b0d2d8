/**
 * The history of the machine: each sample enters all tiers, and closed points are written to disk, so that a new gateway
 * has them too.
 */
import type { DevicesHistory, MachineSample } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { appendFile, mkdir, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import { jsonIn } from '@tpulab/platform/json-text.js';
import { readIfThere } from '@tpulab/platform/missing-files.js';

/** Maximum delay before closed points are written to disk, so the most that a killed gateway loses. */
const WRITE_MS = 10_000;
/** While writes fail, up to this many closed points of a tier wait. */
const MAX_WAITING = 600;

interface StoredTier {
  readonly tier: Tier;
  readonly memory: HistoryTier;
  readonly file: HistoryFile;
  waiting: HistoryPoint[];
}

interface HistoryOptions {
  readonly folder: string;
  readonly log: Logger;
  readonly tiers?: readonly Tier[];
}

export class History implements AsyncDisposable {
  readonly #stored: readonly StoredTier[];
  readonly #log: Logger;
  #lastWriteMs = performance.now();
  #writing: Promise<void> = Promise.resolve();
  #isRefused = false;

  constructor({ folder, log, tiers = TIERS }: HistoryOptions) {
    this.#log = log;
    this.#stored = tiers.map(tier => ({
      tier,
      memory: new HistoryTier(tier),
      file: new HistoryFile({ folder, ...tier }),
      waiting: []
    }));
  }

  /** Loads the points of an earlier gateway. If they are unreadable, the sampler runs nevertheless. */
  async load(): Promise<void> {
    for (const { memory, file, tier } of this.#stored) {
      try {
        for (const point of await file.load()) memory.restore(point);
      } catch (error) {
        this.#log.warn({ err: error, tierS: tier.stepS }, 'the history of the machine could not be read');
      }
    }
  }

  add(sample: MachineSample): void {
    const figures = figuresOf(sample);
    for (const stored of this.#stored) {
      const closed = stored.memory.add(sample.time, figures);
      if (closed) stored.waiting = [...stored.waiting, closed].slice(-MAX_WAITING);
    }
    if (performance.now() - this.#lastWriteMs >= WRITE_MS) void this.write();
  }

  /** Resolves after all waiting points were written, or the write failed. */
  write(): Promise<void> {
    this.#lastWriteMs = performance.now();
    return (this.#writing = this.#writing.then(() => this.#write()));
  }

  read(tierS: number, fromMs = 0): DevicesHistory {
    const points = this.#stored.find(({ tier }) => tier.stepS === tierS)?.memory.points(fromMs) ?? [];
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
    for (const stored of this.#stored) {
      const closed = stored.memory.close();
      if (closed) stored.waiting.push(closed);
    }
    await this.write();
  }

  async #write(): Promise<void> {
    for (const stored of this.#stored) {
      const points = stored.waiting;
      stored.waiting = [];
      try {
        await stored.file.append(points);
        this.#isRefused = false;
      } catch (error) {
        stored.waiting = [...points, ...stored.waiting].slice(-MAX_WAITING);
        if (!this.#isRefused) this.#log.warn({ err: error }, 'the history of the machine cannot be written');
        this.#isRefused = true;
      }
    }
  }
}

/** Series by name; an unknown figure has no point. */
function figuresOf({ host, devices, sdk }: MachineSample): Map<string, number> {
  const figures = new Map<string, number>();
  const add = (prefix: string, of: object, leaveOut: readonly string[]): void => {
    for (const [name, value] of Object.entries(of) as [string, unknown][])
      if (typeof value === 'number' && !leaveOut.includes(name)) figures.set(`${prefix}.${name}`, value);
  };
  add('host', host, ['cores']);
  for (const device of devices) add(`device.${device.ordinal}`, device, ['ordinal', 'chip', 'idleS']);
  // The SDK lists them in the order of the devices, without device numbers.
  sdk?.tensorCorePercent.forEach((percent, at) => {
    if (percent !== null) figures.set(`device.${devices[at]?.ordinal ?? at}.tensorCorePercent`, percent);
  });
  return figures;
}

/** Limit for each of the two files. */
const MAX_BYTES = 8 * 1024 * 1024;

/**
 * The points of one tier on disk, as lines of JSON: `{"names": [...]}` whenever the series change, then for each point
 * `[time, count, min, mean, max, ...]`. Two files alternate, so that the space is bounded and old points are dropped without
 * rewriting. Unreadable lines are skipped: for example a line that was being written during a power failure.
 */
interface HistoryFileOptions {
  readonly folder: string;
  readonly stepS: number;
  /** Points per file before the other file takes over; the number of stored points is between this and twice as many. */
  readonly points: number;
  readonly maxBytes?: number;
}

export class HistoryFile {
  readonly #file: string;
  readonly #limits: { readonly points: number; readonly bytes: number };
  #points = 0;
  #bytes = 0;
  /** The newest line of names in the file. */
  #names: string | null = null;
  /** If the file ends within a line, that line is terminated first. */
  #isTorn = false;

  constructor({ folder, stepS, points, maxBytes = MAX_BYTES }: HistoryFileOptions) {
    this.#file = path.join(folder, `${stepS}s.jsonl`);
    this.#limits = { points, bytes: maxBytes };
  }

  get #older(): string {
    return `${this.#file}.1`;
  }

  /** Oldest first. */
  async load(): Promise<HistoryPoint[]> {
    const older = parse((await readIfThere(this.#older)) ?? '');
    const text = (await readIfThere(this.#file)) ?? '';
    const newer = parse(text);
    this.#points = newer.length;
    this.#bytes = Buffer.byteLength(text);
    this.#isTorn = text !== '' && !text.endsWith('\n');
    return [...older, ...newer];
  }

  async append(points: readonly HistoryPoint[]): Promise<void> {
    if (points.length === 0) return;
    if (this.#points >= this.#limits.points || this.#bytes >= this.#limits.bytes) await this.#turn();
    let text = this.#isTorn ? '\n' : '';
    let names = this.#names;
    for (const point of points) {
      const own = JSON.stringify({ names: point.names });
      if (own !== names) text += `${own}\n`;
      names = own;
      text += `${JSON.stringify([point.time, point.count, ...point.values.map(shortened)])}\n`;
    }
    await mkdir(path.dirname(this.#file), { recursive: true, mode: 0o700 });
    try {
      await appendFile(this.#file, text, { mode: 0o600 });
    } catch (error) {
      // On a full disk, a part of the line may have been written.
      this.#isTorn = true;
      this.#names = null;
      throw error;
    }
    this.#isTorn = false;
    this.#names = names;
    this.#points += points.length;
    this.#bytes += Buffer.byteLength(text);
  }

  async #turn(): Promise<void> {
    if (await stat(this.#file).catch(() => null)) await rename(this.#file, this.#older);
    this.#points = 0;
    this.#bytes = 0;
    this.#names = null;
    this.#isTorn = false;
  }
}

function parse(text: string): HistoryPoint[] {
  const points: HistoryPoint[] = [];
  let names: readonly string[] | null = null;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const json = jsonIn(line);
    const found = namesOf(json);
    if (found) names = found;
    else if (names && Array.isArray(json) && json.every(isNumber) && json.length === 2 + 3 * names.length) {
      const [time = 0, count = 0, ...values] = json;
      points.push({ time, count, names, values });
    } else if (json == null) {
      // An unreadable line may have contained the names for later points.
      names = null;
    }
  }
  return points;
}

function namesOf(json: unknown): string[] | null {
  if (typeof json !== 'object' || json === null || !('names' in json) || !Array.isArray(json.names))
    return null;
  const names: unknown[] = json.names;
  return names.every(name => typeof name === 'string') ? names : null;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

/** Memory in bytes keeps all digits; percentages are rounded. */
function shortened(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(7));
}

/** One tier of history: min, mean and max of every series, per interval. Bounded in points and in values. */
export interface HistoryPoint {
  /** Start time in Unix milliseconds. */
  readonly time: number;
  /** Number of samples in the point. */
  readonly count: number;
  readonly names: readonly string[];
  /** min, mean, max of each name in turn. */
  readonly values: readonly number[];
}

interface Tier {
  readonly stepS: 1 | 10 | 60;
  readonly points: number;
}

/** Ten minutes, two hours, two days. */
const TIERS: readonly Tier[] = [
  { stepS: 1, points: 600 },
  { stepS: 10, points: 720 },
  { stepS: 60, points: 2_880 }
];

/** 16 MiB of numbers: far more than the chips of one host need. */
const MAX_VALUES = 2_000_000;

interface Sum {
  min: number;
  max: number;
  sum: number;
  count: number;
}

export class HistoryTier {
  readonly stepMs: number;
  readonly #limit: number;
  #points: HistoryPoint[] = [];
  #values = 0;
  #open: { time: number; count: number; sums: Map<string, Sum> } | null = null;

  constructor({ stepS, points }: Tier) {
    this.stepMs = stepS * 1000;
    this.#limit = points;
  }

  /** Returns the closed point if this sample begins the next one. */
  add(timeMs: number, figures: ReadonlyMap<string, number>): HistoryPoint | null {
    const time = Math.floor(timeMs / this.stepMs) * this.stepMs;
    // A clock that was set back also closes the point.
    const closed = this.#open && this.#open.time !== time ? this.close() : null;
    this.#open ??= { time, count: 0, sums: new Map() };
    this.#open.count++;
    for (const [name, value] of figures) {
      const sum = this.#open.sums.get(name);
      if (!sum) this.#open.sums.set(name, { min: value, max: value, sum: value, count: 1 });
      else {
        sum.min = Math.min(sum.min, value);
        sum.max = Math.max(sum.max, value);
        sum.sum += value;
        sum.count++;
      }
    }
    return closed;
  }

  close(): HistoryPoint | null {
    const point = this.#opened();
    this.#open = null;
    if (point) this.restore(point);
    return point;
  }

  /** Restores a point that this process or an earlier one closed. */
  restore(point: HistoryPoint): void {
    const last = this.#points.at(-1);
    // A new gateway started within the interval: these are two halves of one point.
    if (last?.time === point.time) {
      this.#points.pop();
      this.#values -= last.values.length;
    }
    const whole = last?.time === point.time ? joined(last, point) : point;
    this.#points.push(whole);
    this.#values += whole.values.length;
    while (this.#points.length > this.#limit || this.#values > MAX_VALUES) {
      this.#values -= this.#points.shift()?.values.length ?? 0;
    }
  }

  /** Oldest first, the unfinished point last. */
  points(fromMs = 0): HistoryPoint[] {
    const open = this.#opened();
    return [...this.#points, ...(open ? [open] : [])]
      .filter(({ time }) => time >= fromMs)
      .sort((a, b) => a.time - b.time)
      .reduce<HistoryPoint[]>((list, point) => {
        const last = list.at(-1);
        if (last?.time === point.time) list[list.length - 1] = joined(last, point);
        else list.push(point);
        return list;
      }, []);
  }

  #opened(): HistoryPoint | null {
    if (!this.#open) return null;
    const { time, count, sums } = this.#open;
    const entries = [...sums];
    return {
      time,
      count,
      names: entries.map(([name]) => name),
      values: entries.flatMap(([, { min, max, sum, count: of }]) => [min, sum / of, max])
    };
  }
}

function joined(a: HistoryPoint, b: HistoryPoint): HistoryPoint {
  const count = a.count + b.count;
  const names = [...new Set([...a.names, ...b.names])];
  const values = names.flatMap(name => {
    const [one, other] = [seriesOf(a, name), seriesOf(b, name)];
    if (!one || !other) return one ?? other ?? [];
    const mean = (one[1] * a.count + other[1] * b.count) / count;
    return [Math.min(one[0], other[0]), mean, Math.max(one[2], other[2])];
  });
  return { time: a.time, count, names, values };
}

function seriesOf({ names, values }: HistoryPoint, name: string): [number, number, number] | null {
  const at = names.indexOf(name) * 3;
  const [min, mean, max] = values.slice(at, at + 3);
  return at < 0 || min === undefined || mean === undefined || max === undefined ? null : [min, mean, max];
}
