/**
 * How much of this machine's disk the copies of one remote may use, in bytes and in files, because a remote decides how
 * much it sends. The use is counted at each append, including archived copies, and for the lifetime of the gateway. At the
 * limit the oldest data is removed first: archived copies, then the oldest segments of any kernel. Readers are notified of
 * such a gap as of any other.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { type JournalLimits, measureSegments, trimSegments } from '../../journal/index.js';
import { InTurn } from '@tpulab/platform/waiting.js';

/** The size counted for a file is at least this, so that many small files count, too. */
const FILE_BYTES = 4096;
/** Share of the limit that is left after freeing: the reserve avoids scanning the whole disk again at the next append. */
const SHARE_AFTER_FREEING = 0.9;
/** A person is notified at most once in this time. */
const NOTIFY_MS = 10 * 60_000;

/** File name of the first archived copy of a journal. */
export const ARCHIVED_JOURNAL = 'journal.other';

/** A journal with an open writer. */
interface BudgetedJournal {
  readonly journalDir: string;
  /** Removes the whole journal; later records begin after a gap. */
  discard(): Promise<void>;
}

interface MirrorBudgetOptions {
  /** Folder of one remote; its kernels are below `kernels`. */
  readonly directory: string;
  readonly limits: Pick<JournalLimits, 'kernelBytes' | 'totalBytes'>;
  /** Called after records or copies were removed. */
  readonly onFull?: () => void;
}

/** A unit that can be removed on its own. */
interface Piece {
  readonly kernelId: string;
  readonly kind: 'aside' | 'segment' | 'newest';
  readonly place: string;
  readonly bytes: number;
  readonly at: number;
}

const ORDER = { aside: 0, segment: 1, newest: 2 } as const;

export class MirrorBudget {
  readonly #open = new Map<string, BudgetedJournal>();
  #used: number | null = null;
  #notifiedAt = -Infinity;
  readonly #writing = new InTurn();

  constructor(private readonly options: MirrorBudgetOptions) {}

  get kernelBytes(): number {
    return Math.min(this.options.limits.kernelBytes, this.options.limits.totalBytes);
  }

  opened(journal: BudgetedJournal): Disposable {
    this.#open.set(journal.journalDir, journal);
    return { [Symbol.dispose]: () => void this.#open.delete(journal.journalDir) };
  }

  /** Writes as soon as there is room, one write at a time. A single frame is written even if it alone exceeds the limit. */
  spend(journal: BudgetedJournal, bytes: number, write: () => Promise<void>): Promise<void> {
    return this.#writing.run(async () => {
      this.#used ??= (await this.#pieces()).reduce((sum, piece) => sum + piece.bytes, 0);
      if (this.#used + bytes > this.options.limits.totalBytes) await this.#makeRoom(journal, bytes);
      await write();
      this.#used += Math.max(bytes, FILE_BYTES);
    });
  }

  async use() {
    const pieces = await this.#pieces();
    return {
      kernels: new Set(pieces.filter(({ kind }) => kind === 'newest').map(({ kernelId }) => kernelId)).size,
      bytes: pieces.reduce((sum, piece) => sum + piece.bytes, 0),
      putAside: pieces.filter(({ kind }) => kind === 'aside').length
    };
  }

  async #makeRoom(journal: BudgetedJournal, bytes: number): Promise<void> {
    const { totalBytes } = this.options.limits;
    const pieces = await this.#pieces();
    let used = pieces.reduce((sum, piece) => sum + piece.bytes, 0);
    const target = Math.max(totalBytes * SHARE_AFTER_FREEING - bytes, 0);
    const isOwn = ({ place, kind }: Piece): boolean => kind === 'newest' && place === journal.journalDir;
    pieces.sort(
      (a, b) => Number(isOwn(a)) - Number(isOwn(b)) || ORDER[a.kind] - ORDER[b.kind] || a.at - b.at
    );
    let removed = false;
    for (const piece of used + bytes > totalBytes ? pieces : []) {
      if (used <= target) break;
      await this.#remove(piece);
      used -= piece.bytes;
      removed = true;
    }
    this.#used = used;
    if (!removed || performance.now() - this.#notifiedAt < NOTIFY_MS) return;
    this.#notifiedAt = performance.now();
    this.options.onFull?.();
  }

  async #remove({ kind, place }: Piece): Promise<void> {
    if (kind === 'aside') await rm(place, { recursive: true, force: true });
    else if (kind === 'segment') await trimSegments(place, 1, 'journal_total_quota');
    else {
      const open = this.#open.get(place);
      if (open) await open.discard();
      else await rm(path.dirname(place), { recursive: true, force: true });
    }
  }

  async #pieces(): Promise<Piece[]> {
    const kernels = path.join(this.options.directory, 'kernels');
    const pieces: Piece[] = [];
    for (const kernelId of await readdir(kernels).catch(() => [])) {
      const kernelDir = path.join(kernels, kernelId);
      for (const name of await readdir(kernelDir).catch(() => [])) {
        const place = path.join(kernelDir, name);
        if (name.startsWith(ARCHIVED_JOURNAL)) {
          pieces.push({ kernelId, kind: 'aside', place, ...(await sizeOf(place)) });
        } else if (name === 'journal') {
          const segments = await measureSegments(place);
          const all = await sizeOf(place);
          let beside = all.bytes;
          for (const [index, segment] of segments.entries()) {
            const bytes = Math.max(segment.bytes, FILE_BYTES);
            beside -= bytes;
            const isNewest = index === segments.length - 1;
            const at = segment.writtenAt;
            // Indexes and files left by repairs are removed with the last piece.
            const rest = isNewest ? Math.max(beside, 0) : 0;
            pieces.push({ kernelId, kind: isNewest ? 'newest' : 'segment', place, bytes: bytes + rest, at });
          }
        }
      }
    }
    return pieces;
  }
}

async function sizeOf(folder: string): Promise<{ bytes: number; at: number }> {
  let bytes = 0;
  let at = 0;
  for (const name of await readdir(folder).catch(() => [])) {
    const found = await stat(path.join(folder, name)).catch(() => null);
    bytes += Math.max(found?.size ?? 0, FILE_BYTES);
    at = Math.max(at, found?.mtimeMs ?? 0);
  }
  return { bytes, at };
}
