/**
 * The copy of one remote kernel's journal: the same records with the same numbers in segment files of our own, so that everything
 * that reads journals reads it too. Where records are missing at the remote, a new segment begins after them.
 */
import { mkdir, readdir, rename } from 'node:fs/promises';
import path from 'node:path';
import {
  checkRange,
  checksumOfRecord,
  JournalReader,
  measureSegments,
  repairJournal,
  SEGMENT_HEADER_BYTES,
  SegmentWriter
} from '../../journal/index.js';
import { StreamError } from './stream-frames.js';

/** Small enough for a quota to be kept well: whole segments go. */
const SEGMENT_BYTES = 16 * 1024 * 1024;
const SYNC_MS = 1000;
/** Name of the first copy that was put aside. */
const ASIDE = 'journal.other';

/** How many copies of a kernel's journal are beside the one that is mirrored. */
export async function countPutAside(kernelDir: string): Promise<number> {
  return (await readdir(kernelDir)).filter(name => name.startsWith(ASIDE)).length;
}

export class MirroredJournal implements AsyncDisposable {
  readonly journalDir: string;
  #segment: SegmentWriter | null = null;
  #nextSeq = 1;
  #checksum: number | undefined;
  #syncing: NodeJS.Timeout | null = null;

  private constructor(readonly kernelDir: string) {
    this.journalDir = path.join(kernelDir, 'journal');
  }

  /** Opens what is there, or begins. A torn record at the end is cut, as a journal's own writer does. */
  static async open(kernelDir: string): Promise<MirroredJournal> {
    const journal = new MirroredJournal(kernelDir);
    await journal.#open();
    return journal;
  }

  /** The number of the record that is to follow. */
  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Checksum of the newest record, undefined when there is none. */
  get checksum(): number | undefined {
    return this.#checksum;
  }

  async bytes(): Promise<number> {
    return (await measureSegments(this.journalDir)).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Appends whole records. Those that are here already are left out; nothing is written of bytes that are not right. */
  async append(bytes: Buffer): Promise<void> {
    const range = checkRange(bytes);
    if (typeof range === 'string') throw new StreamError(`What came is not a row of records: ${range}.`);
    if (range.firstSeq < this.#nextSeq) {
      throw new StreamError(`Record ${range.firstSeq} came again after record ${this.#nextSeq - 1}.`);
    }
    const isFull =
      this.#segment !== null &&
      this.#segment.bytes > SEGMENT_HEADER_BYTES &&
      this.#segment.bytes + bytes.length > SEGMENT_BYTES;
    if (this.#segment === null || isFull || range.firstSeq > this.#nextSeq) {
      const previous = this.#segment;
      this.#segment = SegmentWriter.create(this.journalDir, range.firstSeq);
      await previous?.finish();
    }
    this.#segment.write(range.firstSeq, bytes, 0, bytes.length);
    this.#nextSeq = range.lastSeq + 1;
    this.#checksum = range.checksum;
    this.#syncing ??= setTimeout(() => {
      this.#syncing = null;
      // A failing disk shows at the next write; until then nothing can be done about it.
      this.#segment?.sync().catch(() => undefined);
    }, SYNC_MS).unref();
  }

  /** The remote has another journal under this name: ours is put aside, beside what an earlier time put aside. Answers where. */
  async restart(): Promise<string> {
    const aside = await this.#aside();
    await this.#finish();
    await rename(this.journalDir, aside);
    await this.#open();
    return aside;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#finish();
  }

  /** Each copy may be the only one left of what its kernel said, so none takes the place of another. */
  async #aside(): Promise<string> {
    const names = new Set(await readdir(this.kernelDir));
    let name = ASIDE;
    for (let n = 2; names.has(name); n++) name = `${ASIDE}-${n}`;
    return path.join(this.kernelDir, name);
  }

  async #open(): Promise<void> {
    await mkdir(this.kernelDir, { recursive: true, mode: 0o700 });
    const { nextSeq, tail } = await repairJournal(this.journalDir);
    this.#nextSeq = nextSeq;
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
