/** One whole run: its figures, its curves, the split of its time, its events, its settings. */
import { type CodeLocation, type StoredRun as KeptRunBody, ownValue } from '@tpulab/protocol';
import {
  countText,
  curvesCsv,
  durationText,
  meansOf,
  RUN_SPANS,
  runsJson,
  secondsText
} from '@tpulab/protocol';
import type { JSX } from 'react';
import { download } from '../platform/download.js';
import { spanName } from '../steps/span-names.js';
import { fromBackticks } from '../text/marked.js';
import { momentText } from '../text/moment.js';
import { metricText } from '../text/value.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { Marked } from '../ui/marked-view.js';
import { type BranchRequest, BranchView } from './branch-view.js';
import { compiledText, placeText } from './compare-view.js';
import type { StoredRun } from './stored-runs.js';
import { LogView } from './log-view.js';
import { storedSource, metricNames } from './metric-data.js';
import { MediaView, type MediaViewProps } from './media-view.js';
import { MetricsView } from './metrics-view.js';
import { stateText } from './runs-table.js';
import { SettingsList } from './view.js';
import { trans } from '../text/trans.js';

interface RunViewProps {
  readonly run: StoredRun;
  /** The run from which it was branched, where stored. */
  readonly parent: StoredRun | null;
  /** Overlays both curves. */
  readonly onCompare: () => void;
  readonly onClose: () => void;
  /** Null: no request is possible here. */
  readonly onBranch: ((request: BranchRequest) => Promise<string>) | null;
  /** Requests a logged picture. */
  readonly onLoad: MediaViewProps['onLoad'];
  readonly onOpenDocument: (path: string) => void;
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly loop: DrawLoop;
}

const PROGRAMS_SHOWN = 20;

export function RunView({
  run,
  parent,
  onCompare,
  onClose,
  onBranch,
  onLoad,
  onOpenDocument,
  onGoTo,
  loop
}: RunViewProps): JSX.Element {
  const { summary, body } = run;
  const { name, state, document, machine, labels } = summary;
  const file = name.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 80) || 'run';
  return (
    <article aria-label={trans.__('Run %1', name)}>
      <header className="jp-TPULabRuns-head">
        <button type="button" className="jp-TPULab-link" onClick={onClose}>
          {trans.__('All runs')}
        </button>
        <h3>{name}</h3>
        <span className={`jp-TPULabRun-state jp-mod-${state}`}>{stateText(state)}</span>
        {(labels?.tags ?? []).map(tag => (
          <span key={tag} className="jp-TPULabRuns-tag">
            {tag}
          </span>
        ))}
        <span className="jp-TPULabRuns-actions">
          {document === undefined ? null : (
            <button type="button" className="jp-TPULab-button" onClick={() => onOpenDocument(document)}>
              {trans.__('Open the notebook')}
            </button>
          )}
          {body ? (
            <>
              <button
                type="button"
                className="jp-TPULab-button"
                onClick={() => download(`${file}.csv`, curvesCsv([body]), 'text/csv')}
              >
                {trans.__('Curves as CSV')}
              </button>
              <button
                type="button"
                className="jp-TPULab-button"
                onClick={() => download(`${file}.json`, runsJson([body]), 'application/json')}
              >
                {trans.__('JSON')}
              </button>
            </>
          ) : null}
        </span>
      </header>
      <p className="jp-TPULab-quiet">
        {[document, machine, trans.__('started %1', momentText(summary.startedAt, Date.now()))]
          .filter(text => text !== undefined)
          .join(' · ')}
      </p>
      {summary.branch ? (
        <p>
          {trans.__(
            'Branch of %1 at step %2',
            parent?.summary.name ?? summary.branch.run,
            countText(summary.branch.step)
          )}{' '}
          {parent ? (
            <button type="button" className="jp-TPULab-link" onClick={onCompare}>
              {trans.__('Compare with %1', parent.summary.name)}
            </button>
          ) : null}
        </p>
      ) : null}
      {labels?.note ? <p className="jp-TPULabRuns-quote">{labels.note}</p> : null}
      {body ? (
        <Whole body={body} one={run} {...{ onBranch, onLoad, onGoTo, loop }} />
      ) : (
        <p className="jp-TPULab-quiet">{trans.__('Loading the run…')}</p>
      )}
    </article>
  );
}

function Whole({
  body,
  one,
  onBranch,
  onLoad,
  onGoTo,
  loop
}: Pick<RunViewProps, 'onBranch' | 'onLoad' | 'onGoTo' | 'loop'> & {
  readonly body: KeptRunBody;
  readonly one: StoredRun;
}): JSX.Element {
  const { steps, totalSteps, startedAt, lastAt, metrics, config, bands, commands } = body;
  const alerts = body.alerts ?? [];
  const programs = (body.programs ?? []).filter(({ reused }) => reused !== true);
  const means = meansOf(body);
  const source = storedSource(one);
  const names = metricNames(Object.keys(body.series));
  const figures: readonly (readonly [string, string])[] = [
    [
      trans.__('steps'),
      totalSteps === null ? countText(steps) : `${countText(steps)} / ${countText(totalSteps)}`
    ],
    ...names.map(name => [name, metricText(ownValue(metrics, name) ?? Number.NaN)] as const),
    ...(means ? [[trans.__('per step'), durationText(means.stepMs)] as const] : []),
    [trans.__('duration'), secondsText(lastAt - startedAt)]
  ];
  return (
    <>
      <dl className="jp-TPULabRuns-cards">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="jp-TPULab-number">{value}</dd>
          </div>
        ))}
      </dl>
      <div className="jp-TPULabRuns-compared">
        <div className="jp-TPULabRuns-part">
          {source && names.length > 0 ? (
            <MetricsView
              sources={[source]}
              names={names}
              opened={names}
              hasTiles={false}
              onToggle={() => undefined}
              version={`${one.key} ${lastAt}`}
              loop={loop}
            />
          ) : (
            <p className="jp-TPULab-quiet">{trans.__('This run has logged no metric (run.log).')}</p>
          )}
        </div>
        <div className="jp-TPULabRuns-part">
          {means ? (
            <>
              <h4>{trans.__('Where the time goes')}</h4>
              <div className="jp-TPULabSplit" role="img" aria-label={splitText(means)}>
                {RUN_SPANS.map(span => (
                  <span
                    key={span}
                    className={`jp-TPULabSplit-part jp-mod-${span}`}
                    style={{ width: `${(means.spans[span] / means.stepMs) * 100}%` }}
                  />
                ))}
              </div>
              <p className="jp-TPULab-quiet">{splitText(means)}</p>
            </>
          ) : null}
          <h4>{trans.__('Compilations')}</h4>
          <ul className="jp-TPULabCompare-compiled">
            {programs.slice(-PROGRAMS_SHOWN).map((program, at) => {
              const go = program.location && onGoTo(program.location);
              return (
                <li key={at}>
                  {compiledText(program)}{' '}
                  {go ? (
                    <button type="button" className="jp-TPULab-link" onClick={go}>
                      {placeText(program.location)}
                    </button>
                  ) : (
                    <span className="jp-TPULab-quiet">{placeText(program.location)}</span>
                  )}
                </li>
              );
            })}
          </ul>
          {programs.length === 0 ? <p className="jp-TPULab-quiet">{trans.__('None in its steps.')}</p> : null}
          {body.media ? (
            <>
              <h4>{trans.__('Logged')}</h4>
              <MediaView media={body.media} {...{ onLoad }} />
            </>
          ) : null}
          {alerts.length > 0 ? <h4>{trans.__('Alerts')}</h4> : null}
          <ul className="jp-TPULabCompare-compiled">
            {alerts.map(({ id, time, message, remedy }) => (
              <li key={id}>
                <Marked pieces={fromBackticks(`${message} ${remedy}`)} />{' '}
                <span className="jp-TPULab-quiet">{momentText(time, Date.now())}</span>
              </li>
            ))}
          </ul>
          {bands.length + commands.length > 0 ? <h4>{trans.__('What was changed')}</h4> : null}
          <LogView run={{ bands, commands, file: null, over: body.state !== 'running' }} />
          {onBranch ? (
            <BranchView {...{ onBranch }} run={body} hyperparameters={body.hyperparameters} />
          ) : null}
          {Object.keys(config).length > 0 ? <h4>{trans.__('Configuration')}</h4> : null}
          <SettingsList settings={config} />
        </div>
      </div>
    </>
  );
}

function splitText({ spans, stepMs }: NonNullable<ReturnType<typeof meansOf>>): string {
  const parts = RUN_SPANS.filter(span => spans[span] >= stepMs / 200).map(
    span => `${spanName(span)} ${durationText(spans[span])}`
  );
  return trans.__('%1 per step: %2', durationText(stepMs), parts.join(', '));
}
