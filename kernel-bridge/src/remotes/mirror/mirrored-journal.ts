/**
 * The copy of a remote kernel's journal: the same records with the same numbers in our own segment files, so that every reader
 * of journals can read the copy. If the remote lacks records, a new segment begins after them.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import {
  checkRange,
  checksumOfRecord,
  JournalReader,
  measureSegments,
  repairJournal,
  type RecordStretch,
  SEGMENT_HEADER_BYTES,
  segmentBytesFor,
  segmentsOver,
  SegmentWriter,
  trimSegments
} from '../../journal/index.js';
import { ARCHIVED_JOURNAL, type MirrorBudget } from './mirror-budget.js';
import { StreamError } from './stream-frames.js';

/** Small, because a quota removes whole segments. */
const SEGMENT_BYTES = 16 * 1024 * 1024;
/** A remote that omits records begins a new file after each gap. Above this limit, the oldest files are removed in batches. */
const MAX_SEGMENTS = 64;
const TRIMMED_SEGMENTS = 8;
/** Limit for archived copies of one kernel's journal; the oldest is removed. */
const MAX_ARCHIVED = 16;
const SYNC_MS = 1000;

export class MirroredJournal implements AsyncDisposable {
  readonly journalDir: string;
  readonly #counted: Disposable | null;
  #segment: SegmentWriter | null = null;
  /** Size of each segment in bytes, the oldest first. */
  #segments: number[] = [];
  #nextSeq = 1;
  #checksum: number | undefined;
  #syncing: NodeJS.Timeout | null = null;

  private constructor(
    readonly kernelDir: string,
    private readonly budget: MirrorBudget | null
  ) {
    this.journalDir = path.join(kernelDir, 'journal');
    this.#counted = budget?.opened(this) ?? null;
  }

  /** Opens the existing copy, or begins one. A torn record at the end is cut, as the writer of a journal does. */
  static async open(kernelDir: string, budget: MirrorBudget | null = null): Promise<MirroredJournal> {
    const journal = new MirroredJournal(kernelDir, budget);
    try {
      await journal.#open();
      return journal;
    } catch (error) {
      await journal[Symbol.asyncDispose]();
      throw error;
    }
  }

  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Checksum of the newest record, undefined if there is none. */
  get checksum(): number | undefined {
    return this.#checksum;
  }

  /** Appends whole records. Known records are skipped; invalid bytes are never written. */
  async append(bytes: Buffer): Promise<void> {
    const range = checkRange(bytes);
    if (typeof range === 'string') throw new StreamError(`Invalid record stream: ${range}.`);
    if (range.firstSeq < this.#nextSeq) {
      throw new StreamError(`Record ${range.firstSeq} came again after record ${this.#nextSeq - 1}.`);
    }
    if (this.budget === null) await this.#write(range, bytes);
    else await this.budget.spend(this, bytes.length, () => this.#write(range, bytes));
  }

  async #write(range: RecordStretch, bytes: Buffer): Promise<void> {
    const most = segmentBytesFor(this.budget?.kernelBytes ?? Infinity);
    const isFull =
      this.#segment !== null &&
      this.#segment.bytes > SEGMENT_HEADER_BYTES &&
      this.#segment.bytes + bytes.length > Math.min(SEGMENT_BYTES, most);
    if (this.#segment === null || isFull || range.firstSeq > this.#nextSeq) {
      const previous = this.#segment;
      this.#segment = SegmentWriter.create(this.journalDir, range.firstSeq);
      this.#segments.push(SEGMENT_HEADER_BYTES);
      await previous?.finish();
    }
    this.#segment.write(range.firstSeq, bytes, 0, bytes.length);
    this.#segments[this.#segments.length - 1] = this.#segment.bytes;
    await this.#trim();
    this.#nextSeq = range.lastSeq + 1;
    this.#checksum = range.checksum;
    this.#syncing ??= setTimeout(() => {
      this.#syncing = null;
      // A failing disk shows at the next write; it cannot be handled earlier.
      this.#segment?.sync().catch(() => undefined);
    }, SYNC_MS).unref();
  }

  /**
   * The remote has a different journal under this name: moves our copy beside earlier archived copies. Returns its path;
   * null if there was no copy.
   */
  async restart(): Promise<string | null> {
    if (this.#segment === null && this.#nextSeq === 1) return null;
    const aside = await this.#archiveName();
    await this.#finish();
    await rename(this.journalDir, aside);
    await this.#open();
    return aside;
  }

  /** There is no room for this journal: later records start after a gap. */
  async discard(): Promise<void> {
    await this.#finish();
    await rm(this.journalDir, { recursive: true, force: true });
    await mkdir(this.journalDir, { mode: 0o700 });
    this.#segments = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#counted?.[Symbol.dispose]();
    await this.#finish();
  }

  /** Applies the limits of one kernel. */
  async #trim(): Promise<void> {
    const tooMany = this.#segments.length > MAX_SEGMENTS ? TRIMMED_SEGMENTS : 0;
    const count = Math.max(
      tooMany,
      segmentsOver(
        this.#segments.map(bytes => ({ bytes })),
        this.budget?.kernelBytes ?? Infinity
      )
    );
    if (count === 0) return;
    await trimSegments(this.journalDir, count, 'journal_quota');
    this.#segments = (await measureSegments(this.journalDir)).map(({ bytes }) => bytes);
  }

  /**
   * The path for an archived copy. Each copy may be the only remaining output of its kernel, so none replaces another below
   * the limit.
   */
  async #archiveName(): Promise<string> {
    const numbers = (await readdir(this.kernelDir))
      .flatMap(name =>
        name === ARCHIVED_JOURNAL
          ? 1
          : name.startsWith(`${ARCHIVED_JOURNAL}-`)
            ? Number(name.slice(ARCHIVED_JOURNAL.length + 1))
            : []
      )
      .sort((a, b) => a - b);
    const placeOf = (n: number): string =>
      path.join(this.kernelDir, n === 1 ? ARCHIVED_JOURNAL : `${ARCHIVED_JOURNAL}-${n}`);
    const going = numbers.slice(0, Math.max(numbers.length + 1 - MAX_ARCHIVED, 0));
    for (const n of going) await rm(placeOf(n), { recursive: true, force: true });
    return placeOf((numbers.at(-1) ?? 0) + 1);
  }

  async #open(): Promise<void> {
    await mkdir(this.kernelDir, { recursive: true, mode: 0o700 });
    const { nextSeq, tail } = await repairJournal(this.journalDir);
    this.#nextSeq = nextSeq;
    this.#segments = (await measureSegments(this.journalDir)).map(({ bytes }) => bytes);
    this.#checksum = undefined;
    this.#segment = tail === null ? null : await SegmentWriter.reopen(tail.file, tail.firstSeq, tail.bytes);
    if (nextSeq === 1) return;
    for await (const record of new JournalReader(this.journalDir).read(nextSeq - 1)) {
      this.#checksum = checksumOfRecord(record);
    }
  }

  async #finish(): Promise<void> {
    if (this.#syncing !== null) clearTimeout(this.#syncing);
    this.#syncing = null;
    const segment = this.#segment;
    this.#segment = null;
    await segment?.finish();
  }
}
