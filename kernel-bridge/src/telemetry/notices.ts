/** Notices for a user who has no page open: ended runs and long cells, alerts of runs, kernels that end on their own. */
import { type AdviceMessage, type StoredRunSummary, secondsText } from '@tpulab/protocol';
import { ifMessage, parseHeader } from '../jupyter/index.js';
import type { JournalRecord } from '../journal/index.js';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { setNewest } from '@tpulab/platform/bounded.js';
import { endOf, readWatched, replyTo, type Watched, writeWatched } from './missed-cells.js';

type NoticeKind =
  | 'run_finished'
  | 'run_failed'
  | 'run_cut_off'
  | 'run_alert'
  | 'cell_finished'
  | 'cell_failed'
  | 'kernel_ended';

export interface Notice {
  readonly kind: NoticeKind;
  readonly kernelId: string;
  readonly document: string | null;
  readonly run: string | null;
  /** The text begins with our own words, whatever names a program uses. */
  readonly text: string;
}

export interface NoticesOptions {
  readonly registry: Pick<KernelRegistry, 'list' | 'listen'>;
  /** The notebook of a kernel; null if it has none. */
  readonly documentOf: (kernelId: string) => string | null;
  /** Cells and runs that end sooner get no notice: their user was watching. */
  readonly longMs: number;
  readonly send: (notice: Notice) => void;
  /** The file from which the next server learns what was running; absent: nothing is recorded. */
  readonly file?: string;
}

/** The run of a cell reports its end a little after the cell: then one notice is enough. */
const RUN_WAIT_MS = 3_000;
/** Limit of kernels that had a run recently; they may have ended. */
const MAX_KERNELS = 256;
/** End reasons that follow a person's action and need no notice. */
const REQUESTED_END = /^(restart requested|shut down)$|by a client$/;

const WHILE_DOWN = ' (while the server was down)';
/** The file is written at most this often. */
const WRITE_MS = 1_000;

interface Cell {
  readonly msgId: string;
  readonly since: number;
  /** The newest record when the cell started. */
  readonly seq: number;
}

export class Notices implements Disposable {
  readonly #listening: Disposable;
  readonly #kernels = new Map<string, Disposable>();
  readonly #cells = new Map<string, Cell>();
  /** When a run of each kernel was last reported. */
  readonly #runs = new Map<string, { readonly at: number; readonly kind: NoticeKind }>();
  readonly #waiting = new Set<NodeJS.Timeout>();
  readonly #startedAt = Date.now();
  #writing: NodeJS.Timeout | null = null;
  #isOpen = false;

  constructor(private readonly options: NoticesOptions) {
    this.#listening = options.registry.listen({
      added: kernel => this.#follow(kernel),
      removed: kernel => this.#forget(kernel.id)
    });
    for (const kernel of options.registry.list()) this.#follow(kernel);
  }

  /** Called once, when the kernels that still run are known: reports cells and kernels that ended while no server ran. */
  async catchUp(): Promise<void> {
    const { file, registry, longMs } = this.options;
    if (file === undefined) return;
    for (const watched of await readWatched(file)) {
      const { kernelId, specName, cell } = watched;
      const kernel = registry.list().find(({ id }) => id === kernelId);
      const adopted = this.#cells.get(kernelId);
      const ran = cell !== null && adopted?.msgId === cell.msgId;
      // From here on, replies are reported as they arrive.
      if (ran)
        this.#cells.set(kernelId, { ...adopted, since: performance.now() - (Date.now() - cell.since) });
      const end = await endOf(watched);
      if (ran) {
        if (end === null || isCutOff(end.content) || this.#cells.get(kernelId)?.msgId !== cell.msgId)
          continue;
        // The reply was stored before this server followed the kernel, which was still busy.
        this.#cells.delete(kernelId);
      }
      const { reason = null } = kernel?.snapshot ?? {};
      const isCut = end === null || isCutOff(end.content);
      if (cell !== null && !isCut && end.at - cell.since >= longMs)
        this.#cellEnded(kernelId, end.content, { since: 0, lastedMs: end.at - cell.since, note: WHILE_DOWN });
      else if (isCut && (!kernel || isOver(kernel)) && !isByPerson(reason)) {
        const why = reason === null ? '' : `: ${reason}`;
        this.#later(
          0,
          this.#notice('kernel_ended', kernelId, `Kernel ${specName} ended${why}${WHILE_DOWN}.`)
        );
      }
    }
    this.#isOpen = true;
    this.#write();
  }

  /** A run or its kernel has ended. */
  runEnded(run: StoredRunSummary, reason: string | null): void {
    const endedWhileDown = run.state !== 'interrupted' && run.lastAt < this.#startedAt;
    const steps = `${run.steps} step${run.steps === 1 ? '' : 's'}`;
    const note = endedWhileDown ? WHILE_DOWN : '';
    if (run.state === 'interrupted') {
      if (!isByPerson(reason))
        this.#addRunNotice(
          'run_cut_off',
          run,
          `was cut off after ${steps}: its kernel ended${reason === null ? '' : ` (${reason})`}.`
        );
    } else if (run.state === 'failed') this.#addRunNotice('run_failed', run, `failed after ${steps}${note}.`);
    else if (run.lastAt - run.startedAt >= this.options.longMs)
      this.#addRunNotice(
        'run_finished',
        run,
        `finished after ${steps} in ${secondsText(run.lastAt - run.startedAt)}${note}.`
      );
  }

  runAlert(run: StoredRunSummary, { message }: AdviceMessage): void {
    const text = `Run ${run.name}: ${message.replaceAll('`', '')}`;
    this.options.send(this.#notice('run_alert', run.kernelId, text, run.name));
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]();
    for (const kernelId of [...this.#kernels.keys()]) this.#forget(kernelId);
    for (const timer of this.#waiting) clearTimeout(timer);
    if (this.#writing) clearTimeout(this.#writing);
  }

  #addRunNotice(kind: NoticeKind, run: StoredRunSummary, what: string): void {
    setNewest(this.#runs, run.kernelId, { at: performance.now(), kind }, MAX_KERNELS);
    this.options.send(this.#notice(kind, run.kernelId, `Run ${run.name} ${what}`, run.name));
  }

  #notice(kind: NoticeKind, kernelId: string, text: string, run: string | null = null): Notice {
    return { kind, kernelId, document: this.options.documentOf(kernelId), run, text };
  }

  #follow(kernel: Kernel): void {
    let ended = isOver(kernel);
    // The cell started before this server, so its duration is unknown.
    this.#began(kernel, Number.NEGATIVE_INFINITY);
    const listening = kernel.listen({
      changed: () => {
        this.#began(kernel, performance.now());
        const wasOver = ended;
        ended = isOver(kernel);
        const { reason, specName } = kernel.snapshot;
        if (!ended || wasOver || reason === null || isByPerson(reason)) return;
        const notice = this.#notice('kernel_ended', kernel.id, `Kernel ${specName} ended: ${reason}.`);
        this.#later(performance.now() - RUN_WAIT_MS, notice);
      },
      record: record => this.#reply(kernel.id, record)
    });
    this.#kernels.set(kernel.id, listening);
    this.#write();
  }

  #forget(kernelId: string): void {
    this.#kernels.get(kernelId)?.[Symbol.dispose]();
    this.#kernels.delete(kernelId);
    this.#cells.delete(kernelId);
    this.#write();
  }

  #began(kernel: Kernel, since: number): void {
    const { busyParent } = kernel.snapshot;
    const msgId = busyParent === null ? null : ifMessage(() => parseHeader(Buffer.from(busyParent)).msg_id);
    if (msgId !== null && this.#cells.get(kernel.id)?.msgId !== msgId)
      this.#cells.set(kernel.id, { msgId, since, seq: kernel.lastSeq });
    this.#write();
  }

  #reply(kernelId: string, { channel, payload }: JournalRecord): void {
    const cell = this.#cells.get(kernelId);
    if (!cell) return;
    // The journal contains the start: `catchUp` reports the cell with its duration.
    if (this.options.file !== undefined && !this.#isOpen && !Number.isFinite(cell.since)) return;
    const lastedMs = performance.now() - cell.since;
    const content = lastedMs < this.options.longMs ? null : replyTo(cell.msgId, channel, payload);
    if (!content) return;
    this.#cells.delete(kernelId);
    this.#cellEnded(kernelId, content, { since: cell.since, lastedMs, note: '' });
  }

  #cellEnded(
    kernelId: string,
    content: Record<string, unknown>,
    { since, lastedMs, note }: { readonly since: number; readonly lastedMs: number; readonly note: string }
  ): void {
    const { status, execution_count: count, ename, evalue } = content;
    if ((status !== 'ok' && status !== 'error') || ename === 'KeyboardInterrupt' || isCutOff(content)) return;
    const after = (Number.isFinite(lastedMs) ? ` after ${secondsText(lastedMs)}` : '') + note;
    const isOk = status === 'ok';
    const how = isOk ? `finished${after}.` : `failed${after}: ${String(ename)}: ${String(evalue)}`;
    const text = `Cell [${Number(count)}] ${how}`;
    this.#later(since, this.#notice(isOk ? 'cell_finished' : 'cell_failed', kernelId, text));
  }

  /** Writes the running cells and kernels, for the next server. */
  #write(): void {
    const { file, registry } = this.options;
    if (file === undefined || !this.#isOpen || this.#writing) return;
    this.#writing = setTimeout(() => {
      this.#writing = null;
      const running = registry.list().filter(kernel => !isOver(kernel));
      const ahead = Date.now() - performance.now();
      const watched = running.map(({ id, snapshot, journalDir }): Watched => {
        const cell = snapshot.busyParent === null ? undefined : this.#cells.get(id);
        const isKnown = cell !== undefined && Number.isFinite(cell.since);
        return {
          kernelId: id,
          specName: snapshot.specName,
          journalDir,
          cell: isKnown ? { msgId: cell.msgId, since: cell.since + ahead, seq: cell.seq } : null
        };
      });
      writeWatched(file, watched);
    }, WRITE_MS);
  }

  /** Sends the notice later, unless a run of the kernel has reported the same in the meantime. */
  #later(since: number, notice: Notice): void {
    const timer = setTimeout(() => {
      this.#waiting.delete(timer);
      const run = this.#runs.get(notice.kernelId);
      const isSame =
        run !== undefined &&
        run.at >= since &&
        (run.kind === 'run_finished') === (notice.kind === 'cell_finished');
      if (!isSame) this.options.send(notice);
    }, RUN_WAIT_MS);
    this.#waiting.add(timer);
  }
}

function isOver(kernel: Kernel): boolean {
  const { executionState } = kernel.snapshot;
  return executionState === 'dead' || executionState === 'restarting';
}

/** The keeper's own reply to a request whose kernel ended: the kernel's end has its own notice. */
function isCutOff({ ename }: Record<string, unknown>): boolean {
  return ename === 'DeadKernelError';
}

function isByPerson(reason: string | null): boolean {
  return reason !== null && REQUESTED_END.test(reason);
}
