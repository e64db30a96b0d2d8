/**
 * The outputs that this browser trusts, by digest: outputs that a cell of this page has produced, or that the user trusted. The file's
 * own trust mark is ignored: anyone can write `"trusted": true` into a file.
 */
import { savedModels, type SavedModels, shownModels, referencedModels } from './widget-state.js';
import { isScriptable } from '../../src/reattach/trust.js';
import { sha256Hex } from '../../src/platform/sha256.js';
import { pageStorage } from '../../src/platform/page-storage.js';

const KEY = 'tpulab:trusted-outputs';
/** Maximum number of stored digests, the newest: 64 bytes each. */
const MAX_SEEN = 1_000;

interface SavedCell {
  readonly id?: unknown;
  readonly cell_type?: unknown;
  metadata?: Record<string, unknown>;
  readonly outputs?: readonly SavedOutput[];
}

interface SavedOutput {
  readonly data?: Readonly<Record<string, unknown>>;
}

interface DigestStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

export class SeenOutputs {
  /** @param store where digests are stored between pages; null: only as long as this page is open */
  constructor(private readonly store: DigestStore | null = pageStorage()) {}

  /** Marks a notebook read from a file: a cell is trusted when its outputs are known here. Changes `notebook`. */
  mark(notebook: unknown): void {
    const known = this.read();
    const saved = modelsOf(notebook);
    for (const cell of cellsOf(notebook)) {
      const text = scriptable(cell, saved);
      const metadata = withoutTrust(cell.metadata);
      cell.metadata = text !== null && known.has(sha256Hex(text)) ? { ...metadata, trusted: true } : metadata;
    }
  }

  /** Prepares a notebook for its file: removes the marks, and stores trusted outputs as known. Changes `notebook`. */
  learn(notebook: unknown): void {
    const known = this.read();
    const saved = modelsOf(notebook);
    let isChanged = false;
    const digests = new Map<string, string>();
    for (const cell of cellsOf(notebook)) {
      const text = cell.metadata?.['trusted'] === true ? scriptable(cell, saved) : null;
      if (text !== null) {
        const digest = this._digests.get(text) ?? sha256Hex(text);
        digests.set(text, digest);
        isChanged ||= !known.has(digest);
        // The state of a widget changes with each save: only the last state is stored, or it would displace all others.
        const last = this._last.get(cell.id);
        if (last !== undefined && last !== digest) known.delete(last);
        if ([...shownModels(cell.outputs ?? [])].length > 0) this._last.set(cell.id, digest);
        known.add(digest);
      }
      cell.metadata = withoutTrust(cell.metadata);
    }
    this._digests = digests;
    if (isChanged) this.write([...known].slice(-MAX_SEEN));
  }

  private read(): Set<string> {
    try {
      const stored: unknown = JSON.parse(this.store?.getItem(KEY) ?? '[]');
      return new Set([...(Array.isArray(stored) ? stored.map(String) : []), ...this._unsaved]);
    } catch {
      return new Set(this._unsaved);
    }
  }

  private write(digests: readonly string[]): void {
    try {
      if (this.store !== null) {
        this.store.setItem(KEY, JSON.stringify(digests));
        return;
      }
    } catch {
      // Storage is full: the digests are known to this page alone.
    }
    this._unsaved = digests;
  }

  private _unsaved: readonly string[] = [];
  /** Digests of cells with widgets, by their id. */
  private readonly _last = new Map<unknown, string>();
  /** Digests of the last save: most outputs of the next save are the same. */
  private _digests: ReadonlyMap<string, string> = new Map();
}

export const seenOutputs = new SeenOutputs();

function cellsOf(notebook: unknown): readonly SavedCell[] {
  const { cells } = (notebook ?? {}) as { cells?: unknown };
  return Array.isArray(cells)
    ? (cells as unknown[]).filter((cell): cell is SavedCell => typeof cell === 'object' && cell !== null)
    : [];
}

function withoutTrust(metadata: Record<string, unknown> = {}): Record<string, unknown> {
  const { trusted: _, ...rest } = metadata;
  return rest;
}

const modelsOf = (notebook: unknown): SavedModels =>
  savedModels((notebook as { metadata?: { widgets?: unknown } } | null)?.metadata?.widgets);

/**
 * The outputs of a cell as text, with the file's state of the widgets in them; null when trust changes none of them
 * visibly.
 */
function scriptable({ outputs }: SavedCell, saved: SavedModels): string | null {
  if (!Array.isArray(outputs)) return null;
  const some = (outputs as (SavedOutput | null)[])
    .map(output => output?.data ?? {})
    .filter(data => Object.keys(data).some(isScriptable));
  const models = referencedModels(shownModels(outputs), id => saved[id]?.state, saved);
  const parts = [...some.map(withSortedKeys), ...[...models].sort().map(id => [id, saved[id]])];
  return some.length === 0 ? null : JSON.stringify(parts, sorted);
}

/** A file may have the properties of an object in another order than the page. */
const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** A file may have the entries in another order than the page. */
const withSortedKeys = (data: Readonly<Record<string, unknown>>): unknown =>
  Object.entries(data)
    .map(([mimeType, value]) => [mimeType, Array.isArray(value) ? value.join('') : value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
