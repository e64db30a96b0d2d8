/** What a user who has no page open is notified of: runs and long cells that end, alerts of runs, kernels that end by themselves. */
import { type AdviceMessage, type KeptRunSummary, secondsText } from '@tpulab/protocol';
import { decodeV1, parentOf, contentOf, ifMessage, parseHeader, PART, v1Part } from '../jupyter/index.js';
import { type JournalRecord, RecordChannel } from '../journal/index.js';
import type { Kernel } from '../kernels/kernel.js';
import type { KernelRegistry } from '../kernels/kernel-registry.js';
import { setNewest } from '../platform/bounded.js';

export type NoticeKind =
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
  /** Its first word is ours, whatever a program has named. */
  readonly text: string;
}

export interface NoticesOptions {
  readonly registry: Pick<KernelRegistry, 'list' | 'listen'>;
  /** The notebook of a kernel; null where it has none. */
  readonly documentOf: (kernelId: string) => string | null;
  /** What finishes sooner was watched. */
  readonly longMs: number;
  readonly send: (notice: Notice) => void;
}

/** The run of a cell says so a little after the cell: then nobody needs to hear of both. */
const RUN_WAIT_MS = 3_000;
/** Of the kernels that had a run of late; they may be gone. */
const KERNELS_KEPT = 256;
/** What people do by hand is no news to them. */
const ASKED = /^(restart requested|shut down)$|by a client$/;

interface Cell {
  readonly msgId: string;
  readonly since: number;
}

export class Notices implements Disposable {
  readonly #listening: Disposable;
  readonly #kernels = new Map<string, Disposable>();
  readonly #cells = new Map<string, Cell>();
  /** When a run of each kernel was last told about. */
  readonly #runs = new Map<string, { readonly at: number; readonly kind: NoticeKind }>();
  readonly #waiting = new Set<NodeJS.Timeout>();

  constructor(private readonly options: NoticesOptions) {
    this.#listening = options.registry.listen({
      added: kernel => this.#follow(kernel),
      removed: kernel => this.#forget(kernel.id)
    });
    for (const kernel of options.registry.list()) this.#follow(kernel);
  }

  /** A run has come to its end, or its kernel has. */
  runEnded(run: KeptRunSummary, reason: string | null): void {
    const steps = `${run.steps} step${run.steps === 1 ? '' : 's'}`;
    if (run.state === 'interrupted') {
      if (reason === null || !ASKED.test(reason))
        this.#ofRun(
          'run_cut_off',
          run,
          `was cut off after ${steps}: its kernel ended${reason === null ? '' : ` (${reason})`}.`
        );
    } else if (run.state === 'failed') this.#ofRun('run_failed', run, `failed after ${steps}.`);
    else if (run.lastAt - run.startedAt >= this.options.longMs)
      this.#ofRun(
        'run_finished',
        run,
        `finished after ${steps} in ${secondsText(run.lastAt - run.startedAt)}.`
      );
  }

  runAlert(run: KeptRunSummary, { message }: AdviceMessage): void {
    const text = `Run ${run.name}: ${message.replaceAll('`', '')}`;
    this.options.send(this.#notice('run_alert', run.kernelId, text, run.name));
  }

  [Symbol.dispose](): void {
    this.#listening[Symbol.dispose]();
    for (const kernelId of [...this.#kernels.keys()]) this.#forget(kernelId);
    for (const timer of this.#waiting) clearTimeout(timer);
  }

  #ofRun(kind: NoticeKind, run: KeptRunSummary, what: string): void {
    setNewest(this.#runs, run.kernelId, { at: performance.now(), kind }, KERNELS_KEPT);
    this.options.send(this.#notice(kind, run.kernelId, `Run ${run.name} ${what}`, run.name));
  }

  #notice(kind: NoticeKind, kernelId: string, text: string, run: string | null = null): Notice {
    return { kind, kernelId, document: this.options.documentOf(kernelId), run, text };
  }

  #follow(kernel: Kernel): void {
    let ended = isOver(kernel);
    // A cell that ran before this server did: nobody knows for how long.
    this.#began(kernel, Number.NEGATIVE_INFINITY);
    const listening = kernel.listen({
      changed: () => {
        this.#began(kernel, performance.now());
        const wasOver = ended;
        ended = isOver(kernel);
        const { reason, specName } = kernel.snapshot;
        if (!ended || wasOver || reason === null || ASKED.test(reason)) return;
        const notice = this.#notice('kernel_ended', kernel.id, `Kernel ${specName} ended: ${reason}.`);
        this.#later(performance.now() - RUN_WAIT_MS, notice);
      },
      record: record => this.#reply(kernel.id, record)
    });
    this.#kernels.set(kernel.id, listening);
  }

  #forget(kernelId: string): void {
    this.#kernels.get(kernelId)?.[Symbol.dispose]();
    this.#kernels.delete(kernelId);
    this.#cells.delete(kernelId);
  }

  #began(kernel: Kernel, since: number): void {
    const { busyParent } = kernel.snapshot;
    const msgId = busyParent === null ? null : ifMessage(() => parseHeader(Buffer.from(busyParent)).msg_id);
    if (msgId !== null && this.#cells.get(kernel.id)?.msgId !== msgId)
      this.#cells.set(kernel.id, { msgId, since });
  }

  #reply(kernelId: string, { channel, payload }: JournalRecord): void {
    const cell = this.#cells.get(kernelId);
    if (channel !== RecordChannel.shell || !cell || performance.now() - cell.since < this.options.longMs)
      return;
    const told = ifMessage(() => {
      if (parseHeader(v1Part(payload, PART.header) ?? Buffer.alloc(0)).msg_type !== 'execute_reply')
        return null;
      const message = decodeV1(payload);
      return parentOf(message)?.msg_id === cell.msgId ? contentOf(message) : null;
    });
    if (!told) return;
    this.#cells.delete(kernelId);
    const { status, execution_count: count, ename, evalue } = told;
    if ((status !== 'ok' && status !== 'error') || ename === 'KeyboardInterrupt') return;
    const after = Number.isFinite(cell.since) ? ` after ${secondsText(performance.now() - cell.since)}` : '';
    const isOk = status === 'ok';
    const how = isOk ? `finished${after}.` : `failed${after}: ${String(ename)}: ${String(evalue)}`;
    const text = `Cell [${Number(count)}] ${how}`;
    this.#later(cell.since, this.#notice(isOk ? 'cell_finished' : 'cell_failed', kernelId, text));
  }

  /** Unless a run of the kernel has told the same since then. */
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
