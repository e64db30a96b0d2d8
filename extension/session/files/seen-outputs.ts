/**
 * Which outputs this browser has trusted, by their digest: those that a cell of this page has made, or that a person trusted. What a
 * file says of itself is not asked: anybody can write `"trusted": true` into one.
 */
import { savedModels, type SavedModels, shownModels, together } from '../notebook/widget-state.js';
import { isScriptable } from '../../src/reattach/trust.js';
import { sha256Hex } from '../../src/platform/sha256.js';
import { pageStorage } from '../../src/platform/page-storage.js';

const KEY = 'tpulab:trusted-outputs';
/** The newest ones: 64 bytes each. */
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

export interface DigestStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

export class SeenOutputs {
  /** @param store where digests are kept between pages; null: for as long as this page is open */
  constructor(private readonly store: DigestStore | null = pageStorage()) {}

  /** A notebook as it comes from a file: a cell is trusted when its outputs are known here. Changes `notebook`. */
  mark(notebook: unknown): void {
    const known = this.read();
    const saved = modelsOf(notebook);
    for (const cell of cellsOf(notebook)) {
      const text = scriptable(cell, saved);
      const metadata = withoutTrust(cell.metadata);
      cell.metadata = text !== null && known.has(sha256Hex(text)) ? { ...metadata, trusted: true } : metadata;
    }
  }

  /** A notebook as it goes into a file: without the mark, and what was trusted is known from then on. Changes `notebook`. */
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
        // The state of a widget changes with each save: its last one is enough, or it would push out all others.
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
      return new Set([...(Array.isArray(stored) ? stored.map(String) : []), ...this._unkept]);
    } catch {
      return new Set(this._unkept);
    }
  }

  private write(digests: readonly string[]): void {
    try {
      if (this.store !== null) {
        this.store.setItem(KEY, JSON.stringify(digests));
        return;
      }
    } catch {
      // Full: then they are known to this page alone.
    }
    this._unkept = digests;
  }

  private _unkept: readonly string[] = [];
  /** Of cells with widgets, by their id. */
  private readonly _last = new Map<unknown, string>();
  /** Of the last save: most outputs of the next one are the same. */
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
 * The outputs of a cell as text, with what the file says of the widgets in them; null when none of them looks different once it is
 * trusted.
 */
function scriptable({ outputs }: SavedCell, saved: SavedModels): string | null {
  if (!Array.isArray(outputs)) return null;
  const some = (outputs as (SavedOutput | null)[])
    .map(output => output?.data ?? {})
    .filter(data => Object.keys(data).some(isScriptable));
  const models = together(shownModels(outputs), id => saved[id]?.state, saved);
  const parts = [...some.map(withSortedKeys), ...[...models].sort().map(id => [id, saved[id]])];
  return some.length === 0 ? null : JSON.stringify(parts, sorted);
}

/** A file has the parts of an object in another order than the page. */
const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** A file may have them in another order than the page. */
const withSortedKeys = (data: Readonly<Record<string, unknown>>): unknown =>
  Object.entries(data)
    .map(([mimeType, value]) => [mimeType, Array.isArray(value) ? value.join('') : value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
