/** Other runs, of this kernel and of ended kernels, to compare with the shown run. The page "Runs" shows each of them whole. */
import { countText, type StoredRunSummary } from '@tpulab/protocol';
import { type JSX, useState } from 'react';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import { metricText } from '../text/value.js';
import { isWhole, type StoredRun } from './stored-runs.js';
import { momentText } from '../text/moment.js';
import { trans } from '../text/trans.js';

interface StoredRunsViewProps {
  readonly kernel: KernelTelemetry;
  readonly run: Run | null;
  readonly stored: readonly StoredRun[];
  readonly onOpenStored: (run: StoredRun) => void;
  /** Keys of the runs that are compared with the current one. */
  readonly compared: readonly string[];
  readonly onCompare: (keys: readonly string[]) => void;
}

const MAX_SHOWN = 5;

interface Entry {
  readonly key: string;
  readonly name: string;
  readonly detail: string;
  readonly stored: StoredRun | null;
}

export function StoredRunsView(props: StoredRunsViewProps): JSX.Element | null {
  const { run, compared, onCompare, onOpenStored } = props;
  const [all, setAll] = useState(false);
  const entries = otherRuns(props);
  if (entries.length === 0) {
    return null;
  }
  const shown = all ? entries : entries.slice(0, MAX_SHOWN);
  const isCompared = (key: string): boolean => compared.includes(key);
  return (
    <div className="jp-TPULabKept">
      <ul aria-label={trans.__('Other runs, newest first')}>
        {shown.map(entry => (
          <li key={entry.key} className="jp-TPULab-row">
            <span>
              {run ? (
                <input
                  type="checkbox"
                  checked={isCompared(entry.key)}
                  aria-label={trans.__('Compare with %1', entry.name)}
                  onChange={() => {
                    if (entry.stored && !isWhole(entry.stored)) {
                      onOpenStored(entry.stored);
                    }
                    onCompare(
                      isCompared(entry.key)
                        ? compared.filter(key => key !== entry.key)
                        : [...compared, entry.key]
                    );
                  }}
                />
              ) : null}{' '}
              {entry.name}
            </span>
            <span className="jp-TPULab-number jp-TPULab-quiet">{entry.detail}</span>
          </li>
        ))}
      </ul>
      {entries.length > MAX_SHOWN ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all
            ? trans.__('Show fewer')
            : trans._n('Show %1 earlier one', 'Show %1 earlier ones', entries.length - MAX_SHOWN)}
        </button>
      ) : null}
    </div>
  );
}

/** Runs of this kernel in the page, then the bridge's stored runs of it and of others. */
export function otherRuns({
  kernel,
  run,
  stored
}: Pick<StoredRunsViewProps, 'kernel' | 'run' | 'stored'>): Entry[] {
  const ownRuns = kernel.runs.runs;
  const ownIds = new Set(ownRuns.map(({ id }) => id));
  const own = [...ownRuns]
    .reverse()
    .filter(other => other !== run)
    .map((other): Entry => {
      const [name, value] = Object.entries(other.metrics)[0] ?? [];
      return {
        key: other.id,
        name: other.name,
        detail: name === undefined || value === undefined ? '' : `${name} ${metricText(value)}`,
        stored: null
      };
    });
  const others = stored
    .filter(({ summary }) => summary.kernelId !== kernel.kernelId || !ownIds.has(summary.run))
    .map((one): Entry => ({
      key: one.key,
      name: one.summary.name,
      detail: storedDetail(one.summary),
      stored: one
    }));
  return [...own, ...others];
}

function storedDetail(summary: StoredRunSummary): string {
  return trans.__('%1 steps · %2', countText(summary.steps), momentText(summary.startedAt, Date.now()));
}
