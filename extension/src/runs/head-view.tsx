/** The head of a run: its state, its progress, its main metric, and the buttons that steer it. */
import { type ControlAction, countText, secondsText } from '@tpulab/protocol';
import { type JSX, useState } from 'react';
import type { Run } from '../events/run.js';
import { actionText, buttonsOf, stateText } from '../events/run-state.js';
import { ProgressLine } from '../steps/progress-line.js';
import { summarize } from '../steps/summary.js';
import { metricText } from '../text/value.js';
import { Sparkline } from '../ui/charts/sparkline.js';
import { useSeconds } from '../ui/use-changes.js';
import { Glyph, isGlyph } from '../ui/glyph.js';
import { metricNames } from './metric-data.js';
import type { ControlModel } from './model.js';
import { trans } from '../text/trans.js';

interface HeadViewProps {
  readonly run: Run;
  /** The runs of the kernel, oldest first. */
  readonly runs: readonly Run[];
  readonly onSelect: (run: Run) => void;
  readonly control: ControlModel | null;
  readonly window: number;
  /** Metrics whose charts are open. */
  readonly opened: readonly string[];
  readonly onToggle: (metric: string) => void;
}

export function HeadView(props: HeadViewProps): JSX.Element {
  const { run, window, control } = props;
  const summary = summarize(run.steps, window);
  const [main] = metricNames(run.series.keys());
  const series = main === undefined ? undefined : run.series.get(main);
  return (
    <div className="jp-TPULabHead">
      <div className="jp-TPULabHead-title">
        <span className={`jp-TPULabRun-state jp-mod-${run.control?.state ?? run.state}`}>
          {stateText(run)}
        </span>
        <RunName {...props} />
        <span className="jp-TPULab-number jp-TPULab-quiet" title={trans.__('Since the run began')}>
          <Elapsed run={run} />
        </span>
      </div>
      {summary ? <ProgressLine run={run} summary={summary} /> : null}
      {main !== undefined && series ? (
        <div className="jp-TPULabHead-metric">
          <div>
            <span>{main}</span>{' '}
            <strong
              className={`jp-TPULab-number${series.nonFiniteSince === null ? '' : ' jp-TPULab-failure'}`}
            >
              {metricText(series.last)}
            </strong>
            <div className="jp-TPULab-quiet">{bestText(main, series.values)}</div>
          </div>
          <button
            type="button"
            className="jp-TPULabHead-spark"
            aria-label={trans.__('Chart of %1', main)}
            title={trans.__('Chart of %1', main)}
            aria-expanded={props.opened.includes(main)}
            onClick={() => props.onToggle(main)}
          >
            <Sparkline values={series.values} version={`${run.id} ${series.added}`} />
          </button>
        </div>
      ) : null}
      <Buttons run={run} control={control} />
      <NotFinite run={run} control={control} />
    </div>
  );
}

/** A name for a single run; a choice for several. */
function RunName({ run, runs, onSelect }: HeadViewProps): JSX.Element {
  if (runs.length < 2) {
    return <strong className="jp-TPULabHead-name">{run.name}</strong>;
  }
  return (
    <span className="jp-TPULabHead-name jp-mod-choice">
      <strong>{run.name}</strong>
      <Glyph name="fold" />
      <select
        aria-label={trans.__('Run')}
        value={run.id}
        onChange={event => {
          const chosen = runs.find(({ id }) => id === event.currentTarget.value);
          if (chosen) {
            onSelect(chosen);
          }
        }}
      >
        {[...runs].reverse().map(other => (
          <option key={other.id} value={other.id}>
            {`${other.name} · ${stateText(other)}`}
          </option>
        ))}
      </select>
    </span>
  );
}

/** The elapsed time, by the page's clock while the run is live, so that it also increases for a run that hangs. */
function Elapsed({ run }: { readonly run: Run }): JSX.Element | null {
  const { begunAt, firstMessageAt, lastMessageAt, receivedAt, state } = run;
  useSeconds(state === 'running');
  const from = begunAt || firstMessageAt;
  const sinceMs = state === 'running' && receivedAt > 0 ? Date.now() - receivedAt : 0;
  const isKnown = from > 0 && lastMessageAt + sinceMs > from;
  return isKnown ? <>{secondsText(lastMessageAt - from + sinceMs)}</> : null;
}

/** Metrics to minimize, by name; for all others the best value is the highest. */
const MINIMIZED = /loss|err|perplex|ppl|nll|mae|mse|wer|cer|fid|entropy|time/i;

function bestText(name: string, values: ArrayLike<number>): string {
  const isLow = MINIMIZED.test(name);
  let best = isLow ? Infinity : -Infinity;
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] ?? Number.NaN;
    best = (isLow ? value < best : value > best) ? value : best;
  }
  if (!Number.isFinite(best)) {
    return '';
  }
  return isLow ? trans.__('lowest %1', metricText(best)) : trans.__('highest %1', metricText(best));
}

/** Shown where they are requested. */
const NOT_SHOWN: readonly ControlAction[] = ['set', 'branch', 'free', 'memory', 'profile'];

interface PartProps {
  readonly run: Run;
  readonly control: ControlModel | null;
}

function Buttons({ run, control }: PartProps): JSX.Element | null {
  const buttons = buttonsOf(run);
  if (buttons.length === 0) {
    return run.state === 'running' ? (
      <p className="jp-TPULab-quiet">{trans.__('View only. Use tpulab.run to pause, change or stop it.')}</p>
    ) : null;
  }
  const failures = (control?.failed ?? []).filter(({ action }) => !NOT_SHOWN.includes(action));
  return (
    <>
      <div className="jp-TPULabHead-buttons" role="group" aria-label={trans.__('Run controls')}>
        {buttons.map(({ action, name, enabled }) => {
          const pending = control?.pendingOf(action, name) ?? null;
          const full = name ?? actionText(action);
          return (
            <button
              key={`${action} ${name ?? ''}`}
              type="button"
              className="jp-TPULab-button"
              title={full}
              aria-label={full}
              disabled={!enabled || !control || pending !== null}
              aria-busy={pending !== null}
              onClick={() =>
                void control?.request({ action, run: run.id, ...(name !== undefined && { name }) })
              }
            >
              {isGlyph(action) ? <Glyph name={action} /> : null}
              {name ?? full.split(' ')[0]}
              {pending ? '…' : ''}
            </button>
          );
        })}
      </div>
      {failures.map(({ action, name, text }) => (
        <p key={`${action} ${name ?? ''}`} className="jp-TPULab-failure" role="alert">
          {`${name ?? actionText(action)}: ${text}`}
        </p>
      ))}
    </>
  );
}

/** A metric that is NaN or infinite: since when, its previous value, and whether a checkpoint is older than that. */
function NotFinite({ run, control }: PartProps): JSX.Element | null {
  const [ignored, setIgnored] = useState<readonly string[]>([]);
  const bad = [...run.series].flatMap(([name, series]) =>
    series.nonFiniteSince === null || ignored.includes(`${run.id} ${name}`)
      ? []
      : [{ name, series, since: series.nonFiniteSince }]
  );
  const pause = buttonsOf(run).find(({ action, enabled }) => action === 'pause' && enabled);
  return bad.length === 0 ? null : (
    <>
      {bad.map(({ name, series, since }) => (
        <div key={name} className="jp-TPULabAlert jp-mod-error" role="alert">
          <p>
            <strong>
              {trans.__('%1 is %2 since step %3', name, metricText(series.last), countText(since))}
            </strong>
          </p>
          <p>{beforeText(run, series, since)}</p>
          <div className="jp-TPULab-buttons">
            {pause && control ? (
              <button
                type="button"
                className="jp-TPULab-button jp-mod-danger"
                disabled={control.pendingOf('pause') !== null}
                onClick={() => void control.request({ action: 'pause', run: run.id })}
              >
                {trans.__('Pause the run')}
              </button>
            ) : null}
            <button
              type="button"
              className="jp-TPULab-link"
              onClick={() => setIgnored(before => [...before, `${run.id} ${name}`])}
            >
              {trans.__('Ignore')}
            </button>
          </div>
        </div>
      ))}
    </>
  );
}

function beforeText(
  run: Run,
  { values, steps }: { readonly values: ArrayLike<number>; readonly steps: ArrayLike<number> },
  since: number
): string {
  let at = values.length - 1;
  while (at >= 0 && !Number.isFinite(values[at])) {
    at -= 1;
  }
  const last =
    at < 0
      ? trans.__('It was never finite.')
      : trans.__(
          'Last finite value: %1 at step %2.',
          metricText(values[at] ?? Number.NaN),
          countText(steps[at] ?? 0)
        );
  const saved = run.bands.findLast(({ kind, failed }) => kind === 'checkpoint' && !failed);
  if (!saved) {
    return last;
  }
  const when =
    saved.step < since
      ? trans.__('The last checkpoint, step %1, is from before that.', countText(saved.step))
      : trans.__('The last checkpoint, step %1, is from after that.', countText(saved.step));
  return `${last} ${when}`;
}
