/**
 * What the holder of a link sees of a kernel: executions of cells of that notebook, as far as its file does not show them. That is what
 * runs, and what ended after the file was last saved and after the link was made: before that the file is the truth, and what was
 * cleared in it stays cleared. Nothing else of the kernel: not what other documents run on it, no questions and no answers.
 */
import type { JournalRecord } from '../journal/index.js';
import { type Execution, isOpen } from '../outputs/execution.js';
import { type JournaledMessage, MessageReader, metadataOf, sessionOf } from '../outputs/message-of-record.js';
import { readFileSync, type Stats, statSync } from 'node:fs';
import type { NotebookStamp } from '../http/rights.js';
import { setNewest } from '../platform/bounded.js';

/** Which cells are those of the notebook, as of now. */
export interface Scope {
  /** The notebooks that may be seen. */
  readonly own: readonly SavedNotebook[];
  /** Cells of the other documents of the kernel; null: there are no other documents, so everything is of the notebook. */
  readonly others: ReadonlySet<string> | null;
  readonly sinceMs: number;
}

/** How long a look at the files is good for while outputs pass; each request has a look of its own. */
const SCOPE_MS = 1_000;
/** Requests that are remembered until their outputs have come. */
const MAX_REQUESTS = 10_000;

/** A copy of a notebook has the same cells: whose such an execution is, nobody can tell, so it is not shown. */
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

export interface NotebookViewOptions {
  /** Null: nothing may be seen any more. */
  scope(): Scope | null;
  /** Executions of the kernel's present process. */
  readonly executions: readonly Execution[];
  /** The journal as far as the executions are known. */
  readonly until: number;
}

/** For one client on the channels of a kernel. */
export class NotebookView {
  /** Nothing before this record can be for the client. */
  readonly from: number;
  readonly #messages = new MessageReader();
  readonly #requests = new Map<string, boolean>();
  /** Whether everything that a client's session has executed is of the notebook; then so are its widgets. */
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

  /** Whether the client gets this record; every record has to pass, in order. */
  shows(record: JournalRecord): boolean {
    const message = this.#messages.read(record);
    if (message === null) return false;
    if (message.fromClient) this.#learn(message);
    if (!message.onIopub || message.fromClient) return false;
    if (message.parentId === null) return message.msgType === 'status';
    return this.showsRequest(message.parentId, sessionOf(message));
  }

  /** Whether the client may see what belongs to the request with this id. */
  showsRequest(msgId: string, session: string | null = null): boolean {
    const scope = this.#current();
    if (scope === null) return false;
    const cached = this.#requests.get(msgId);
    if (cached !== undefined) return cached;
    // No execution: a request of a page, such as what a widget says. Another document may have come this very moment.
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

/* Notebooks as they were saved last: which cells they have, and whether a file is still the one that was shared. */

/** A notebook as it was saved last. */
export interface SavedNotebook {
  readonly stamp: NotebookStamp;
  readonly cellIds: ReadonlySet<string>;
  readonly savedMs: number;
}

const MAX_NOTEBOOK_BYTES = 64 * 1024 * 1024;
const MAX_CACHED = 200;

/** Notebooks as they were saved last, read again when their files change. In one go, because the question is asked in between. */
export class SavedNotebooks {
  readonly #cache = new Map<string, { readonly version: string; readonly saved: SavedNotebook }>();

  /** Null where there is no such file, or one that is no notebook. */
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

/** Whether a file is still the notebook of a stamp: the same file, or one that was saved over it and has some of its cells. */
export function isSameNotebook(stamp: NotebookStamp, now: NotebookStamp): boolean {
  if (stamp.inode === now.inode && stamp.bornMs === now.bornMs) return true;
  return now.cells.some(id => stamp.cells.includes(id));
}
