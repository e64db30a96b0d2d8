/**
 * The part of a kernel that the holder of a link sees: executions of the shared notebook's cells that its file does not
 * show yet. These are running executions, and those that ended after the last save and after the link was created: for
 * earlier ones the file is authoritative, and cleared outputs stay cleared. Nothing else of the kernel is visible: no code
 * of other documents, no prompts and no answers.
 */
import type { JournalRecord } from '../journal/index.js';
import { type Execution, isOpen } from '../outputs/execution.js';
import { type JournaledMessage, MessageReader, metadataOf, sessionOf } from '../outputs/message-of-record.js';
import { readFileSync, type Stats, statSync } from 'node:fs';
import type { NotebookStamp } from '../http/rights.js';
import { setNewest } from '@tpulab/platform/bounded.js';

/** The current cells of the notebook. */
export interface Scope {
  readonly own: readonly SavedNotebook[];
  /** Cells of the other documents of the kernel; null: there are no other documents, so everything belongs to the notebook. */
  readonly others: ReadonlySet<string> | null;
  readonly sinceMs: number;
}

/** How long a file check stays valid while outputs pass; each request has its own check. */
const SCOPE_MS = 1_000;
/** Limit for requests that are stored until their outputs have arrived. */
const MAX_REQUESTS = 10_000;

/** A copy of a notebook has the same cells: the owner of such an execution is unknown, so it is not shown. */
export function hasCell({ own, others }: Scope, cellId: string | null): boolean {
  if (others === null) return true;
  return cellId !== null && !others.has(cellId) && own.some(({ cellIds }) => cellIds.has(cellId));
}

export function isVisible(scope: Scope, execution: Execution): boolean {
  const { cellId, finishedAt, hidden } = execution;
  if (hidden || !hasCell(scope, cellId)) return false;
  if (isOpen(execution)) return true;
  const savedMs = Math.max(0, ...scope.own.map(each => each.savedMs));
  return finishedAt !== null && finishedAt > Math.max(scope.sinceMs, savedMs);
}

interface NotebookViewOptions {
  /** null: nothing is visible any more. */
  scope(): Scope | null;
  /** Executions of the kernel's current process. */
  readonly executions: readonly Execution[];
  /** The last record up to which the executions are known. */
  readonly until: number;
}

/** The view of one client on the channels of a kernel. */
export class NotebookView {
  /** No record before this one is visible to the client. */
  readonly from: number;
  readonly #messages = new MessageReader();
  readonly #requests = new Map<string, boolean>();
  /** Whether all executions of a client's session belong to the notebook; then its widgets do too. */
  readonly #sessions = new Map<string, boolean>();
  #scope: Scope | null;
  #refreshedAt = performance.now();

  constructor(private readonly options: NotebookViewOptions) {
    const scope = (this.#scope = options.scope());
    let from = options.until;
    for (const execution of options.executions) {
      const isShown = scope !== null && isVisible(scope, execution);
      this.#requests.set(execution.msgId, isShown);
      if (isShown) from = Math.min(from, execution.requestSeq - 1);
    }
    this.from = from;
  }

  /** Whether the client gets this record; every record must be passed here, in order. */
  shows(record: JournalRecord): boolean {
    const message = this.#messages.read(record);
    if (message === null) return false;
    if (message.fromClient) this.#learn(message);
    if (!message.onIopub || message.fromClient) return false;
    if (message.parentId === null) return message.msgType === 'status';
    return this.showsRequest(message.parentId, sessionOf(message));
  }

  /** Whether the client may see messages of the request with this id. */
  showsRequest(msgId: string, session: string | null = null): boolean {
    const scope = this.#current();
    if (scope === null) return false;
    const cached = this.#requests.get(msgId);
    if (cached !== undefined) return cached;
    // Not an execution, but a request of a page, such as a widget message. Another document may have joined at this moment.
    return (
      (scope.others === null && this.#refresh()?.others === null) ||
      (session !== null && this.#sessions.get(session) === true)
    );
  }

  #learn(message: JournaledMessage): void {
    if (message.msgType !== 'execute_request' || message.seq <= this.options.until) return;
    const scope = this.#refresh();
    const { cellId } = metadataOf(message);
    const isShown = scope !== null && hasCell(scope, typeof cellId === 'string' ? cellId : null);
    setNewest(this.#requests, message.msgId, isShown, MAX_REQUESTS);
    const isOwn = isShown && this.#sessions.get(message.session) !== false;
    setNewest(this.#sessions, message.session, isOwn, MAX_REQUESTS);
  }

  #current(): Scope | null {
    return performance.now() - this.#refreshedAt > SCOPE_MS ? this.#refresh() : this.#scope;
  }

  #refresh(): Scope | null {
    this.#refreshedAt = performance.now();
    return (this.#scope = this.options.scope());
  }
}

/* Notebooks as last saved: their cells, and whether a file is still the shared notebook. */

export interface SavedNotebook {
  readonly stamp: NotebookStamp;
  readonly cellIds: ReadonlySet<string>;
  readonly savedMs: number;
}

const MAX_NOTEBOOK_BYTES = 64 * 1024 * 1024;
const MAX_CACHED = 200;

/** Notebooks as last saved, read again when their files change. Synchronous, because access checks are synchronous. */
export class SavedNotebooks {
  readonly #cache = new Map<string, { readonly version: string; readonly saved: SavedNotebook }>();

  /** null if the file is missing or is not a notebook. */
  read(file: string): SavedNotebook | null {
    try {
      const found = statSync(file);
      const version = [found.ino, found.birthtimeMs, found.mtimeMs, found.size].join();
      const cached = this.#cache.get(file);
      if (cached?.version === version) return cached.saved;
      const saved = savedOf(file, found);
      setNewest(this.#cache, file, { version, saved }, MAX_CACHED);
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

/** Whether a file is still the stamped notebook: the same file, or a file that replaced it and contains some of its cells. */
export function isSameNotebook(stamp: NotebookStamp, now: NotebookStamp): boolean {
  if (stamp.inode === now.inode && stamp.bornMs === now.bornMs) return true;
  return now.cells.some(id => stamp.cells.includes(id));
}
