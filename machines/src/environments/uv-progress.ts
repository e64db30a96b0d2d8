/**
 * The progress of uv in an environment, from its output without a terminal (uv 0.9 to 0.13): `Downloading NAME (33.7MiB)` and
 * ` Downloaded NAME` for each large file, then `Prepared`, `Installed` and `Bytecode compiled`, each with a count.
 */
import type { Transfer } from '@tpulab/protocol';

/** Shares of the total time, measured on a home connection: downloads take the most, and bytecode of an environment some 10 s. */
const DOWNLOADS = 0.6;
const REACHED: readonly (readonly [begin: RegExp, fraction: number])[] = [
  [/^Prepared \d/, DOWNLOADS],
  [/^Installed \d/, 0.75],
  [/^Bytecode compiled \d/, 0.9]
];
const UNITS: Readonly<Record<string, number>> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

export class UvProgress {
  readonly #rate: TransferRate;
  readonly #sizes = new Map<string, number>();
  readonly #done = new Set<string>();
  #fraction: number | null = null;

  /** @param now in milliseconds, with an arbitrary origin */
  constructor(now?: () => number) {
    this.#rate = new TransferRate(now);
  }

  /** 0 to 1, never less than before; null: unknown. */
  get fraction(): number | null {
    return this.#fraction;
  }

  /** null before the first large file, and after the downloads. */
  get transfer(): Transfer | null {
    if (this.#sizes.size === 0 || (this.#fraction ?? 0) >= DOWNLOADS) return null;
    const { bytes, totalBytes } = this.#counted();
    return this.#rate.at(bytes, totalBytes);
  }

  /** @returns the line with a space in its size: `Downloading jaxlib (81.1 MiB)` */
  line(text: string): string {
    const begun = /^\s*Downloading (\S+) \(([\d.]+)(B|KiB|MiB|GiB)\)/.exec(text);
    if (begun) {
      const [, name = '', size = '', unit = ''] = begun;
      this.#sizes.set(name, Number(size) * (UNITS[unit] ?? 1));
      this.#rate.begin();
    }
    const ended = /^\s*Downloaded (\S+)/.exec(text)?.[1];
    if (ended !== undefined && this.#sizes.has(ended)) this.#done.add(ended);
    if (begun || ended !== undefined) {
      const { bytes, totalBytes } = this.#counted();
      if (totalBytes > 0) this.#reach((DOWNLOADS * bytes) / totalBytes);
    }
    const reached = REACHED.find(([begin]) => begin.test(text.trim()));
    if (reached) this.#reach(reached[1]);
    return text.trim().replace(/\(([\d.]+)(B|KiB|MiB|GiB)\)/, '($1 $2)');
  }

  #counted(): { readonly bytes: number; readonly totalBytes: number } {
    let [bytes, totalBytes] = [0, 0];
    for (const [name, size] of this.#sizes) {
      totalBytes += size;
      if (this.#done.has(name)) bytes += size;
    }
    return { bytes, totalBytes };
  }

  #reach(fraction: number): void {
    this.#fraction = Math.max(this.#fraction ?? 0, fraction);
  }
}

/** A rate over a shorter time is not meaningful. */
const MIN_MS = 500;

/** The mean rate of consecutive bytes since the first of them. */
export class TransferRate {
  #since: number | null = null;

  /** @param now in milliseconds, with an arbitrary origin */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** The clock starts at the first call. */
  begin(): void {
    this.#since ??= this.now();
  }

  at(bytes: number, totalBytes: number | null): Transfer {
    this.begin();
    const tookMs = this.now() - (this.#since ?? 0);
    return { bytes, totalBytes, bytesPerS: tookMs < MIN_MS ? null : (bytes / tookMs) * 1_000 };
  }
}
