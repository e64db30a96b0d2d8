/** Notebooks as they were saved last: which cells they have, and whether a file is still the one that was shared. */
import { readFileSync, type Stats, statSync } from 'node:fs';
import type { NotebookStamp } from '../http/rights.js';

/** A notebook as it was saved last. */
export interface SavedNotebook {
  readonly stamp: NotebookStamp;
  readonly cellIds: ReadonlySet<string>;
  readonly savedMs: number;
}

const MAX_NOTEBOOK_BYTES = 64 * 1024 * 1024;
const MAX_HELD = 200;

/** Notebooks as they were saved last, read again when their files change. In one go, because the question is asked in between. */
export class SavedNotebooks {
  readonly #held = new Map<string, { readonly version: string; readonly saved: SavedNotebook }>();

  /** Null where there is no such file, or one that is no notebook. */
  read(file: string): SavedNotebook | null {
    try {
      const found = statSync(file);
      const version = [found.ino, found.birthtimeMs, found.mtimeMs, found.size].join();
      const held = this.#held.get(file);
      if (held?.version === version) return held.saved;
      const saved = savedOf(file, found);
      this.#held.delete(file);
      this.#held.set(file, { version, saved });
      for (const oldest of this.#held.keys()) {
        if (this.#held.size <= MAX_HELD) break;
        this.#held.delete(oldest);
      }
      return saved;
    } catch {
      return null;
    }
  }
}

function savedOf(file: string, found: Stats): SavedNotebook {
  const cellIds = new Set(
    found.isFile() && found.size <= MAX_NOTEBOOK_BYTES ? cellIdsIn(readFileSync(file, 'utf8')) : []
  );
  return {
    stamp: { inode: String(found.ino), bornMs: found.birthtimeMs, cells: [...cellIds].slice(0, 256) },
    cellIds,
    savedMs: found.mtimeMs
  };
}

function cellIdsIn(text: string): string[] {
  try {
    const { cells } = JSON.parse(text) as { cells?: unknown };
    if (!Array.isArray(cells)) return [];
    return cells.flatMap((cell: { id?: unknown } | null) =>
      typeof cell?.id === 'string' && cell.id.length <= 64 ? [cell.id] : []
    );
  } catch {
    return [];
  }
}

/** Whether a file is still the notebook of a stamp: the same file, or one that was saved over it and has some of its cells. */
export function isSameNotebook(stamp: NotebookStamp, now: NotebookStamp): boolean {
  if (stamp.inode === now.inode && stamp.bornMs === now.bornMs) return true;
  return now.cells.some(id => stamp.cells.includes(id));
}
