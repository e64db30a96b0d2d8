/** The table of runs: the search, the order, and the runs of a group under one row. */
import { differingNames, type StoredRunSummary, ownValue } from '@tpulab/protocol';
import { valueText } from '../text/value.js';
import { trans } from '../text/trans.js';

export type SortKey = 'name' | 'startedAt' | 'duration' | 'steps' | 'stepMs' | 'metric';

export interface TableChoice {
  readonly search: string;
  readonly state: StoredRunSummary['state'] | null;
  readonly sort: SortKey;
  readonly descending: boolean;
  /** The displayed metric, which `metric` sorts by. */
  readonly metric: string | null;
  readonly grouped: boolean;
  /** Groups whose runs are shown. */
  readonly unfolded: readonly string[];
}

/** One row: a run, or several of a group. */
interface TableRow {
  readonly group: string | null;
  readonly runs: readonly StoredRunSummary[];
}

/** Every word has to be in the name, a tag, the note, the notebook, the machine, or in `setting=value`. */
export function isFound(run: StoredRunSummary, search: string): boolean {
  const { name, labels, document, machine, config } = run;
  const text = [
    ...[name, document, machine, labels?.note, labels?.group, ...(labels?.tags ?? [])],
    ...Object.entries(config).map(([key, value]) => `${key}=${value === null ? '' : valueText(value)}`)
  ]
    .join('\n')
    .toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word));
}

export function tableRows(runs: readonly StoredRunSummary[], choice: TableChoice): TableRow[] {
  const { search, state, descending, grouped } = choice;
  const found = runs
    .filter(run => (state === null || run.state === state) && isFound(run, search))
    .sort((a, b) => compare(a, b, choice) * (descending ? -1 : 1));
  const rows = new Map<string, StoredRunSummary[]>();
  for (const run of found) {
    const group = grouped ? run.labels?.group || null : null;
    const key = group === null ? `run ${run.key}` : `group ${group}`;
    rows.set(key, [...(rows.get(key) ?? []), run]);
  }
  return [...rows].map(([key, list]) => ({
    group: key.startsWith('group ') ? key.slice(6) : null,
    runs: list
  }));
}

/** Unknown values are last in both orders. */
function compare(
  a: StoredRunSummary,
  b: StoredRunSummary,
  { sort, metric, descending }: TableChoice
): number {
  if (sort === 'name') return a.name.localeCompare(b.name, undefined, { numeric: true });
  const of = (run: StoredRunSummary): number | undefined =>
    sort === 'metric'
      ? ownValue(run.metrics, metric ?? '')
      : sort === 'duration'
        ? run.lastAt - run.startedAt
        : run[sort];
  const last = descending ? -Infinity : Infinity;
  const [x, y] = [of(a) ?? last, of(b) ?? last];
  return x === y ? b.startedAt - a.startedAt : x - y;
}

/** Settings with a column: the settings that differ between the visible runs, at most `most` of them. */
export function settingColumns(
  runs: readonly StoredRunSummary[],
  most: number
): { all: number; shown: string[] } {
  const configured = runs.filter(({ config }) => Object.keys(config).length > 0);
  const all = differingNames(configured);
  return { all: all.length, shown: all.slice(0, most) };
}

export function stateText(state: StoredRunSummary['state']): string {
  switch (state) {
    case 'running':
      return trans.__('running');
    case 'finished':
      return trans.__('finished');
    case 'failed':
      return trans.__('failed');
    case 'interrupted':
      return trans.__('interrupted');
  }
}
