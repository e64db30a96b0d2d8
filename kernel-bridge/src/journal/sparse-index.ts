/** Where in a segment some of its records begin, so that a reader need not walk the file from its start. */

/** One entry for each of these many bytes: 256 entries for a full segment. */
export const INDEX_SPACING_BYTES = 256 * 1024;

export interface IndexEntry {
  readonly seq: number;
  readonly offset: number;
}

export class SparseIndex {
  readonly #entries: IndexEntry[];

  /** `further` grow in both fields, from `first` on. */
  constructor(first: IndexEntry, further: readonly IndexEntry[] = []) {
    this.#entries = [first, ...further];
  }

  /** Ignored unless it lies far enough behind the last entry; entries only ever grow at the end. */
  add(entry: IndexEntry): void {
    const last = this.#entries.at(-1);
    if (last === undefined || entry.offset >= last.offset + INDEX_SPACING_BYTES) {
      this.#entries.push(entry);
    }
  }

  /** The last entry at or before `seq`; the first entry when `seq` is older than the segment. */
  floor(seq: number): IndexEntry {
    let low = 0;
    let high = this.#entries.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#entries[middle]?.seq ?? Infinity) <= seq) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return this.#entries[low] ?? { seq, offset: 0 };
  }
}
