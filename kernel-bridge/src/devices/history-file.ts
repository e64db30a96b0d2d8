/**
 * The points of one tier on disk, as lines of JSON: `{"names": [...]}` whenever the series change, then for each point
 * `[time, count, min, mean, max, ...]`. Two files take turns, so that the space is bounded and old points go without rewriting.
 * Whatever cannot be read is left out: a line that was being written when the machine lost power, for example.
 */
import { appendFile, mkdir, readFile, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import type { HistoryPoint } from './history-tier.js';

/** Of each of the two files. */
const MAX_BYTES = 8 * 1024 * 1024;

export interface HistoryFileOptions {
  readonly folder: string;
  readonly stepS: number;
  /** Points that one file holds before the other takes over; what is kept is between this and twice as many. */
  readonly points: number;
  readonly maxBytes?: number;
}

export class HistoryFile {
  readonly #file: string;
  readonly #limits: { readonly points: number; readonly bytes: number };
  #points = 0;
  #bytes = 0;
  /** As the file has them last. */
  #names: string | null = null;
  /** A file that ends within a line gets its end first. */
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
    const older = parse(await textOf(this.#older));
    const text = await textOf(this.#file);
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
      // A full disk may have taken a part.
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

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

function parse(text: string): HistoryPoint[] {
  const points: HistoryPoint[] = [];
  let names: readonly string[] | null = null;
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const json = jsonOf(line);
    const found = namesOf(json);
    if (found) names = found;
    else if (names && Array.isArray(json) && json.every(isNumber) && json.length === 2 + 3 * names.length) {
      const [time = 0, count = 0, ...values] = json;
      points.push({ time, count, names, values });
    } else if (json === null) {
      // Perhaps the names of what follows were in it.
      names = null;
    }
  }
  return points;
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
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

/** Bytes of memory keep all their digits, percentages lose the noise. */
function shortened(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(7));
}
