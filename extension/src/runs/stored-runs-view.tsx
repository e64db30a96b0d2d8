/** Other runs, of this kernel and of ended kernels: to open again, and to compare with the shown run. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { countText, durationText, type StoredRunSummary } from '@tpulab/protocol';
import { type JSX, useState } from 'react';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { metricText, valueText } from '../text/value.js';
import { isWhole, type StoredRun } from './stored-runs.js';
import { storedSource, metricNames } from './metric-data.js';
import { LogView } from './log-view.js';
import { MetricsView } from './metrics-view.js';
import { momentText } from '../text/moment.js';

export interface StoredRunsViewProps {
  readonly kernel: KernelTelemetry;
  readonly run: Run | null;
  readonly stored: readonly StoredRun[];
  readonly onOpenStored: (run: StoredRun) => void;
  /** Keys of the runs that are compared with the current one. */
  readonly compared: readonly string[];
  readonly onCompare: (keys: readonly string[]) => void;
  readonly loop: DrawLoop;
  readonly trans: TranslationBundle;
}

const SHOWN = 5;

interface Entry {
  readonly key: string;
  readonly name: string;
  readonly detail: string;
  readonly stored: StoredRun | null;
}

export function StoredRunsView(props: StoredRunsViewProps): JSX.Element | null {
  const { run, stored, compared, onCompare, onOpenStored, trans } = props;
  const [all, setAll] = useState(false);
  const [opened, setOpened] = useState<string | null>(null);
  const entries = otherRuns(props);
  if (entries.length === 0) {
    return null;
  }
  const shown = all ? entries : entries.slice(0, SHOWN);
  const isCompared = (key: string): boolean => compared.includes(key);
  const open = (entry: Entry): void => {
    if (entry.stored && !isWhole(entry.stored)) {
      onOpenStored(entry.stored);
    }
  };
  const current = stored.find(({ key }) => key === opened);
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
                    open(entry);
                    onCompare(
                      isCompared(entry.key)
                        ? compared.filter(key => key !== entry.key)
                        : [...compared, entry.key]
                    );
                  }}
                />
              ) : null}{' '}
              {entry.stored ? (
                <button
                  type="button"
                  className="jp-TPULab-link"
                  aria-expanded={opened === entry.key}
                  title={trans.__('Open this run')}
                  onClick={() => {
                    open(entry);
                    setOpened(opened === entry.key ? null : entry.key);
                  }}
                >
                  {entry.name}
                </button>
              ) : (
                entry.name
              )}
            </span>
            <span className="jp-TPULab-number jp-TPULab-quiet">{entry.detail}</span>
          </li>
        ))}
      </ul>
      {entries.length > SHOWN ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all
            ? trans.__('Show fewer')
            : trans._n('Show %1 earlier one', 'Show %1 earlier ones', entries.length - SHOWN)}
        </button>
      ) : null}
      {current ? <Opened {...props} one={current} /> : null}
    </div>
  );
}

function Opened({ one, loop, trans }: StoredRunsViewProps & { readonly one: StoredRun }): JSX.Element {
  const { summary, body } = one;
  const source = storedSource(one);
  const [metrics, setMetrics] = useState<readonly string[]>([]);
  if (!body || !source) {
    return <p className="jp-TPULab-quiet">{trans.__('Loading the run…')}</p>;
  }
  const { totals, commands, bands } = body;
  return (
    <div className="jp-TPULabKept-open" role="group" aria-label={trans.__('Run %1', summary.name)}>
      <p className="jp-TPULab-quiet">
        {trans.__(
          '%1 steps in %2, %3 a step; %4 commands',
          countText(summary.steps),
          durationText(totals.wallMs),
          durationText(summary.steps > 0 ? totals.wallMs / summary.steps : 0),
          commands.length
        )}
      </p>
      <MetricsView
        sources={[source]}
        names={metricNames(Object.keys(body.series))}
        version={`${summary.key} ${summary.lastAt}`}
        opened={metrics}
        onToggle={name =>
          setMetrics(metrics.includes(name) ? metrics.filter(other => other !== name) : [...metrics, name])
        }
        loop={loop}
        trans={trans}
      />
      <LogView run={{ bands, commands, file: null, over: summary.state !== 'running' }} trans={trans} />
      <dl className="jp-TPULabConfig">
        {Object.entries(summary.config).map(([name, value]) => (
          <div key={name} className="jp-TPULab-row">
            <dt>{name}</dt>
            <dd className="jp-TPULab-number">{value === null ? '–' : valueText(value)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** Runs of this kernel in the page, then the bridge's stored runs of it and of others. */
export function otherRuns({
  kernel,
  run,
  stored,
  trans
}: Pick<StoredRunsViewProps, 'kernel' | 'run' | 'stored' | 'trans'>): Entry[] {
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
      detail: storedDetail(one.summary, trans),
      stored: one
    }));
  return [...own, ...others];
}

function storedDetail(summary: StoredRunSummary, trans: TranslationBundle): string {
  return trans.__('%1 steps · %2', countText(summary.steps), momentText(summary.startedAt, Date.now()));
}
