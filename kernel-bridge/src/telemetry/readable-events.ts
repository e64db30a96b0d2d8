/** The events that a client may receive: all, or those that its token allows. */
import type { EventTopic } from '@tpulab/protocol';
import type { EventSource, SourcedEvent } from './event-source.js';
import { dropOldest } from '@tpulab/platform/bounded.js';

export type ReadableEvents = Pick<EventSource, 'listen' | 'watch' | 'historyFrom' | 'past'>;

export interface EventFilter {
  /** Checked for each event: the kernel of a notebook changes. */
  kernel(kernelId: string): boolean;
  /**
   * For the view of one notebook: whether a run, or a compilation, came from its cells. Null: everything of the kernel is
   * visible.
   */
  readonly cells: {
    shows(kernelId: string, cellId: string | null): boolean;
    readonly sinceMs: number;
  } | null;
}

/** These topics describe other readers and the list of machines, which do not belong to a notebook. */
const CLOSED: ReadonlySet<EventTopic> = new Set(['clients', 'remotes']);
/** Limit of runs whose visibility is cached for a listener. */
const MAX_RUNS = 1_000;

/** The fields of a telemetry message that identify its run or cell. */
interface TelemetryFields {
  readonly type: string;
  readonly time?: number;
  readonly run?: string | null;
  readonly location?: { readonly cellId?: string | null } | null;
}

export function eventsOf(source: EventSource, filter: EventFilter): ReadableEvents {
  const isOpen = ({ topic, kernelId }: SourcedEvent): boolean =>
    !CLOSED.has(topic) && kernelId !== null && filter.kernel(kernelId);
  const runs = new Runs(filter);
  return {
    listen: listener =>
      source.listen(event => {
        if (isOpen(event) && runs.admits(event, false)) listener(event);
      }),
    watch: topics => source.watch(topics),
    historyFrom: () =>
      Object.fromEntries(
        Object.entries(source.historyFrom()).filter(([kernelId]) => filter.kernel(kernelId))
      ),
    *past(topics, since) {
      const events = [...source.past(topics, since)].filter(isOpen);
      if (filter.cells !== null) for (const event of events) runs.note(event);
      for (const event of events) if (runs.admits(event, true)) yield event;
    }
  };
}

/** Tracks which runs of which kernels came from visible cells. */
class Runs {
  readonly #cells: EventFilter['cells'];
  readonly #isShown = new Map<string, boolean>();
  readonly #newestMs = new Map<string, number>();

  constructor({ cells }: EventFilter) {
    this.#cells = cells;
  }

  /** A run that has already ended belongs to the past, like all other events of that time. */
  note(event: SourcedEvent): void {
    const { run, time = 0 } = event.seq === null ? { run: null } : fieldsOf(event);
    if (run) this.#newestMs.set(`${event.kernelId} ${run}`, time);
  }

  admits(event: SourcedEvent, isPast: boolean): boolean {
    const cells = this.#cells;
    const { kernelId } = event;
    if (cells === null || event.seq === null || kernelId === null) return true;
    const { type, run, time = 0, location } = fieldsOf(event);
    if (run == null) {
      const isRecent = time >= cells.sinceMs;
      return location === undefined ? isRecent : isRecent && cells.shows(kernelId, location?.cellId ?? null);
    }
    const key = `${kernelId} ${run}`;
    if (isPast && (this.#newestMs.get(key) ?? 0) < cells.sinceMs) return false;
    if (type === 'run') {
      this.#isShown.set(key, cells.shows(kernelId, location?.cellId ?? null));
      dropOldest(this.#isShown, MAX_RUNS);
    }
    // The run started before the client connected: its cell is unknown, so it counts as a run without a cell.
    return this.#isShown.get(key) ?? cells.shows(kernelId, null);
  }
}

function fieldsOf({ json }: SourcedEvent): TelemetryFields {
  const { data } = JSON.parse(json) as { data?: TelemetryFields };
  return data ?? { type: '' };
}
