/** The page of runs: a table with search and order, chosen runs overlaid and compared, one whole run, and all of it as files. */
import {
  type CodeLocation,
  countText,
  curvesCsv,
  durationText,
  type StoredRunSummary,
  type RunLabels,
  runsJson,
  secondsText,
  tableCsv,
  ownValue
} from '@tpulab/protocol';
import { type JSX, type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { IBridgeBackends } from '../backends/tokens.js';
import { download } from '../platform/download.js';
import { momentText } from '../text/moment.js';
import { metricText, valueText } from '../text/value.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { useChanges } from '../ui/use-changes.js';
import { CompareView, Letter } from './compare-view.js';
import { isWhole, type StoredRun, StoredRunList } from './stored-runs.js';
import { storedSource, metricNames } from './metric-data.js';
import { MetricsView } from './metrics-view.js';
import { RunView } from './run-view.js';
import { RUN_EXAMPLE } from './view.js';
import { settingColumns, type SortKey, stateText, type TableChoice, tableRows } from './runs-table.js';
import { trans } from '../text/trans.js';

interface RunsPageProps {
  readonly backends: Pick<IBridgeBackends, 'gateways' | 'changed'>;
  readonly loop: DrawLoop;
  /** No labels can be written to a run. */
  readonly isReadOnly: boolean;
  readonly onOpenDocument: (path: string) => void;
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
}

const POLL_MS = 5_000;
const REFRESH_MS = 2_000;
const LETTERS = ['A', 'B', 'C', 'D', 'E'] as const;
const PAGE_ROWS = 50;
const SETTINGS_SHOWN = 4;
const STATES = ['running', 'finished', 'failed', 'interrupted'] as const;

export function RunsPage(props: RunsPageProps): JSX.Element {
  const { backends } = props;
  const [lists] = useState(() => new Map<string, StoredRunList>());
  const [chosen, setChosen] = useState<string | null>(null);
  useChanges(backends, false, REFRESH_MS);
  useEffect(
    () => () => {
      for (const list of lists.values()) list.dispose();
      lists.clear();
    },
    [lists]
  );
  const { gateways } = backends;
  const place = gateways.find(({ id }) => id === chosen) ?? gateways[0];
  if (place && !lists.has(place.id)) {
    lists.set(place.id, new StoredRunList(() => place.serverSettings));
  }
  const list = place && lists.get(place.id);
  return (
    <div className="jp-TPULabRuns">
      <h2>{trans.__('Runs')}</h2>
      {gateways.length > 1 ? (
        <label>
          {trans.__('On')}{' '}
          <select value={place?.id ?? ''} onChange={event => setChosen(event.currentTarget.value)}>
            {gateways.map(({ id, label }) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </select>
        </label>
      ) : null}
      {list ? (
        <RunsOfServer key={place.id} {...props} list={list} />
      ) : (
        <p className="jp-TPULab-quiet">
          {trans.__('No TPULab server is connected. Start one with "tpulab serve", or connect to a TPU.')}
        </p>
      )}
    </div>
  );
}

function RunsOfServer(props: RunsPageProps & { readonly list: StoredRunList }): JSX.Element {
  const { list } = props;
  useChanges(list, false, 0);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [opened, setOpened] = useState<string | null>(null);
  const [choice, setChoice] = useState<TableChoice>({
    ...{ search: '', state: null, sort: 'startedAt', descending: true, metric: null },
    ...{ grouped: true, unfolded: [] }
  });
  useEffect(() => {
    const polling = list.poll(POLL_MS);
    return () => polling.dispose();
  }, [list]);
  const wanted = list.runs.filter(run => (chosen.includes(run.key) || run.key === opened) && !isWhole(run));
  const missing = wanted.map(({ key, summary }) => `${key} ${summary.lastAt}`).join('\n');
  useEffect(() => {
    for (const line of missing === '' ? [] : missing.split('\n')) void list.open(line.split(' ')[0] ?? '');
  }, [list, missing]);
  const current = list.runs.find(({ key }) => key === opened);
  if (current) {
    const { branch } = current.summary;
    const parent = branch && list.runs.find(({ summary }) => summary.run === branch.run);
    const compare = (): void => {
      setChosen([parent?.key ?? '', current.key].filter(key => key !== ''));
      setOpened(null);
    };
    return (
      <RunView
        {...props}
        run={current}
        parent={parent ?? null}
        onCompare={compare}
        onClose={() => setOpened(null)}
        onLoad={id => list.medium(current.key, id)}
        onBranch={props.isReadOnly ? null : request => list.branch(current.summary, request)}
      />
    );
  }
  if (list.runs.length === 0) {
    return <Empty isKnown={list.isKnown} />;
  }
  const toggle = (key: string): void =>
    setChosen(
      chosen.includes(key) ? chosen.filter(other => other !== key) : [...chosen, key].slice(-LETTERS.length)
    );
  const runs = chosen.flatMap(key => list.runs.find(run => run.key === key) ?? []);
  return (
    <>
      <RunsTable {...{ list, choice, chosen }} onChoice={setChoice} onToggle={toggle} onOpen={setOpened} />
      {runs.length > 0 ? (
        <>
          <ChosenBar {...props} runs={runs} onToggle={toggle} onClear={() => setChosen([])} />
          <Chosen {...props} runs={runs} />
        </>
      ) : (
        <p className="jp-TPULab-quiet">{trans.__('Choose two runs to see why one is slower.')}</p>
      )}
    </>
  );
}

function Empty({ isKnown }: { readonly isKnown: boolean }): JSX.Element {
  return isKnown ? (
    <div className="jp-TPULabEmpty">
      <p>
        <strong>{trans.__('Every loop around a jitted function appears here.')}</strong>{' '}
        {trans.__('To compare runs later, give them a name and their settings:')}
      </p>
      <pre className="jp-TPULabEmpty-code">{RUN_EXAMPLE}</pre>
    </div>
  ) : (
    <p className="jp-TPULab-quiet">{trans.__('Loading the runs…')}</p>
  );
}

interface RunsTableProps {
  readonly list: StoredRunList;
  readonly choice: TableChoice;
  readonly chosen: readonly string[];
  readonly onChoice: (choice: TableChoice) => void;
  readonly onToggle: (key: string) => void;
  readonly onOpen: (key: string) => void;
}

function RunsTable({ list, choice, chosen, onChoice, onToggle, onOpen }: RunsTableProps): JSX.Element {
  const search = useRef<HTMLInputElement>(null);
  const [page, setPage] = useState(0);
  const { unfolded } = choice;
  const summaries = list.runs.map(({ summary }) => summary);
  const metrics = metricNames(summaries.flatMap(run => Object.keys(run.metrics)));
  const metric = choice.metric ?? metrics[0] ?? null;
  const rows = tableRows(summaries, { ...choice, metric });
  const first = Math.min(page * PAGE_ROWS, Math.max(0, rows.length - 1));
  const shown = rows.slice(first, first + PAGE_ROWS);
  const settings = settingColumns(
    shown.flatMap(({ runs }) => runs),
    SETTINGS_SHOWN
  );
  const change = (part: Partial<TableChoice>): void => {
    setPage(0);
    onChoice({ ...choice, ...part });
  };
  const onKey = (event: KeyboardEvent): void => {
    const { key, target } = event;
    const isTyping = target instanceof HTMLInputElement && target.type !== 'checkbox';
    if (key === '/' && !isTyping) {
      event.preventDefault();
      search.current?.focus();
    }
    const step = key === 'ArrowDown' ? 1 : key === 'ArrowUp' ? -1 : 0;
    if (step !== 0 && target instanceof HTMLElement && target.closest('tbody')) {
      const controls = [...event.currentTarget.querySelectorAll<HTMLElement>(`tbody ${target.localName}`)];
      event.preventDefault();
      controls[controls.indexOf(target) + step]?.focus();
    }
  };
  const head = (sort: SortKey, text: string): JSX.Element => (
    <th
      scope="col"
      className={sort === 'name' || sort === 'startedAt' ? undefined : 'jp-mod-figure'}
      aria-sort={choice.sort === sort ? (choice.descending ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        className="jp-TPULabRuns-sort"
        onClick={() =>
          change({ sort, descending: choice.sort === sort ? !choice.descending : sort !== 'name' })
        }
      >
        {text}
        <span aria-hidden="true">{choice.sort === sort ? (choice.descending ? ' ▾' : ' ▴') : ''}</span>
      </button>
    </th>
  );
  const columns = { settings: settings.shown, metric, chosen, onToggle, onOpen };
  return (
    <div className="jp-TPULabRuns-table" onKeyDown={onKey}>
      <div className="jp-TPULabRuns-tools">
        <input
          ref={search}
          type="search"
          className="jp-TPULab-input"
          placeholder={trans.__('Name, tag, note or value')}
          aria-label={trans.__('Search runs by name, tag, note or value')}
          value={choice.search}
          onChange={event => change({ search: event.currentTarget.value })}
        />
        <label>
          {trans.__('State')}{' '}
          <select
            value={choice.state ?? ''}
            onChange={event =>
              change({ state: STATES.find(state => state === event.currentTarget.value) ?? null })
            }
          >
            <option value="">{trans.__('any')}</option>
            {STATES.map(state => (
              <option key={state} value={state}>
                {stateText(state)}
              </option>
            ))}
          </select>
        </label>
        {metrics.length > 1 ? (
          <label>
            {trans.__('Metric')}{' '}
            <select value={metric ?? ''} onChange={event => change({ metric: event.currentTarget.value })}>
              {metrics.map(name => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        ) : null}
        <label>
          <input
            type="checkbox"
            checked={choice.grouped}
            onChange={event => change({ grouped: event.currentTarget.checked })}
          />{' '}
          {trans.__('Groups as one row')}
        </label>
      </div>
      <div className="jp-TPULabRuns-scroll" tabIndex={0} role="region" aria-label={trans.__('Table of runs')}>
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span className="jp-TPULab-unseen">{trans.__('Chosen')}</span>
              </th>
              {head('name', trans.__('Name'))}
              <th scope="col" className="jp-mod-notebook">
                {trans.__('Notebook')}
              </th>
              <th scope="col" className="jp-mod-machine">
                {trans.__('Machine')}
              </th>
              <th scope="col">{trans.__('State')}</th>
              {head('startedAt', trans.__('Started'))}
              {head('duration', trans.__('Duration'))}
              {head('steps', trans.__('Steps'))}
              {metric === null ? null : head('metric', metric)}
              {head('stepMs', trans.__('per step'))}
              {settings.shown.map(name => (
                <th
                  key={name}
                  scope="col"
                  className="jp-mod-setting"
                  title={trans.__('%1 settings differ', settings.all)}
                >
                  {name}
                </th>
              ))}
              <th scope="col" className="jp-mod-tags">
                {trans.__('Tags')}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ group, runs }) =>
              group === null || runs.length === 1 ? (
                runs.map(run => <RunRow key={run.key} run={run} {...columns} />)
              ) : (
                <GroupRows
                  key={`group ${group}`}
                  {...columns}
                  group={group}
                  runs={runs}
                  isOpen={unfolded.includes(group)}
                  onFold={() =>
                    onChoice({
                      ...choice,
                      unfolded: unfolded.includes(group)
                        ? unfolded.filter(one => one !== group)
                        : [...unfolded, group]
                    })
                  }
                />
              )
            )}
          </tbody>
        </table>
      </div>
      <p className="jp-TPULab-row jp-TPULab-quiet">
        <span role="status">
          {rows.length === 0
            ? trans.__('No run matches.')
            : trans.__('Rows %1 to %2 of %3', first + 1, first + shown.length, rows.length)}
        </span>
        {rows.length > PAGE_ROWS ? (
          <span>
            <button
              type="button"
              className="jp-TPULab-button"
              disabled={first === 0}
              onClick={() => setPage(page - 1)}
            >
              {trans.__('Newer')}
            </button>{' '}
            <button
              type="button"
              className="jp-TPULab-button"
              disabled={first + PAGE_ROWS >= rows.length}
              onClick={() => setPage(page + 1)}
            >
              {trans.__('Older')}
            </button>
          </span>
        ) : null}
      </p>
    </div>
  );
}

interface Columns extends Pick<RunsTableProps, 'chosen' | 'onToggle' | 'onOpen'> {
  readonly settings: readonly string[];
  readonly metric: string | null;
}

function RunRow({
  run,
  settings,
  metric,
  chosen,
  onToggle,
  onOpen
}: Columns & { readonly run: StoredRunSummary }): JSX.Element {
  const { key, name, document, machine, state, startedAt, lastAt, steps, metrics, stepMs, config, labels } =
    run;
  const letter = LETTERS[chosen.indexOf(key)];
  const last = metric === null ? undefined : ownValue(metrics, metric);
  return (
    <tr className={letter ? 'jp-mod-chosen' : undefined}>
      <td>
        <input
          type="checkbox"
          checked={letter !== undefined}
          aria-label={trans.__('Choose %1', name)}
          onChange={() => onToggle(key)}
        />
        {letter ? <Letter letter={letter} /> : null}
      </td>
      <th scope="row">
        <button type="button" className="jp-TPULab-link" onClick={() => onOpen(key)}>
          {name}
        </button>
        {labels?.note ? (
          <span className="jp-TPULabRuns-note" title={labels.note}>
            {labels.note}
          </span>
        ) : null}
      </th>
      <td className="jp-mod-notebook">{document?.split('/').at(-1) ?? ''}</td>
      <td className="jp-mod-machine">{machine ?? ''}</td>
      <td>
        <span className={`jp-TPULabRun-state jp-mod-${state}`}>{stateText(state)}</span>
      </td>
      <td>{momentText(startedAt, Date.now())}</td>
      <td className="jp-mod-figure">{secondsText(lastAt - startedAt)}</td>
      <td className="jp-mod-figure">{countText(steps)}</td>
      {metric === null ? null : (
        <td className="jp-mod-figure">{last === undefined ? '' : metricText(last)}</td>
      )}
      <td className="jp-mod-figure">{stepMs === undefined ? '' : durationText(stepMs)}</td>
      {settings.map(setting => {
        const value = ownValue(config, setting);
        return (
          <td key={setting} className="jp-mod-setting">
            {value === undefined || value === null ? '' : valueText(value)}
          </td>
        );
      })}
      <td className="jp-mod-tags">
        {(labels?.tags ?? []).map(tag => (
          <span key={tag} className="jp-TPULabRuns-tag">
            {tag}
          </span>
        ))}
      </td>
    </tr>
  );
}

function GroupRows({
  group,
  runs,
  isOpen,
  onFold,
  ...columns
}: Columns & {
  readonly group: string;
  readonly runs: readonly StoredRunSummary[];
  readonly isOpen: boolean;
  readonly onFold: () => void;
}): JSX.Element {
  const { metric, settings } = columns;
  const values = runs.flatMap(run => ownValue(run.metrics, metric ?? '') ?? []);
  const count = (state: StoredRunSummary['state']): number => runs.filter(run => run.state === state).length;
  const span = 7 + settings.length + (metric === null ? 0 : 1);
  return (
    <>
      <tr className="jp-mod-group">
        <td />
        <th scope="row">
          <button type="button" className="jp-TPULab-link" aria-expanded={isOpen} onClick={onFold}>
            {isOpen ? '▾' : '▸'} {group}
          </button>
        </th>
        <td colSpan={span + 1}>
          {[
            trans._n('%1 run', '%1 runs', runs.length),
            ...STATES.filter(state => count(state) > 0).map(state => `${count(state)} ${stateText(state)}`),
            ...(metric !== null && values.length > 0
              ? [`${metric} ${metricText(Math.min(...values))}–${metricText(Math.max(...values))}`]
              : [])
          ].join(' · ')}
        </td>
      </tr>
      {isOpen ? runs.map(run => <RunRow key={run.key} run={run} {...columns} />) : null}
    </>
  );
}

interface ChosenProps extends RunsPageProps {
  readonly list: StoredRunList;
  readonly runs: readonly StoredRun[];
}

function ChosenBar(
  props: ChosenProps & { readonly onToggle: (key: string) => void; readonly onClear: () => void }
): JSX.Element {
  const { list, runs, isReadOnly, onToggle, onClear } = props;
  const [editing, setEditing] = useState<Label | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const bodies = runs.flatMap(({ body }) => body ?? []);
  const isLoaded = bodies.length === runs.length;
  const save = async (labels: RunLabels): Promise<void> => {
    const failures = await Promise.all(runs.map(({ key }) => list.label(key, labels)));
    const [failure] = failures.filter(one => one !== null);
    setWhy(failure ?? null);
    if (failure === undefined) setEditing(null);
  };
  const files: readonly (readonly [string, string, () => void])[] = [
    [trans.__('Table as CSV'), 'table', () => download('runs.csv', tableCsv(bodies), 'text/csv')],
    [trans.__('Curves as CSV'), 'curves', () => download('curves.csv', curvesCsv(bodies), 'text/csv')],
    [trans.__('JSON'), 'json', () => download('runs.json', runsJson(bodies), 'application/json')]
  ];
  return (
    <div className="jp-TPULabRuns-chosen">
      <span>{trans._n('%1 chosen', '%1 chosen', runs.length)}</span>
      {runs.map(({ key, summary }, at) => (
        <button
          key={key}
          type="button"
          className="jp-TPULab-button"
          title={trans.__('Remove %1 from the chosen runs', summary.name)}
          onClick={() => onToggle(key)}
        >
          <Letter letter={LETTERS[at] ?? ''} /> {summary.name} <span aria-hidden="true">×</span>
        </button>
      ))}
      <button type="button" className="jp-TPULab-link" onClick={onClear}>
        {trans.__('Choose none')}
      </button>
      <span className="jp-TPULabRuns-actions" role="group" aria-label={trans.__('Chosen runs')}>
        {isReadOnly
          ? null
          : labelNames().map(([label, text]) => (
              <button
                key={label}
                type="button"
                className="jp-TPULab-button"
                aria-expanded={editing === label}
                onClick={() => setEditing(editing === label ? null : label)}
              >
                {text}
              </button>
            ))}
        {files.map(([text, kind, give]) => (
          <button key={kind} type="button" className="jp-TPULab-button" disabled={!isLoaded} onClick={give}>
            {text}
          </button>
        ))}
      </span>
      {editing ? (
        <LabelForm
          key={`${editing} ${runs.map(({ key }) => key).join(' ')}`}
          label={editing}
          labels={runs[0]?.summary.labels ?? {}}
          onSave={labels => void save(labels)}
        />
      ) : null}
      {why === null ? null : <p role="alert">{trans.__('The label was not saved: %1', why)}</p>}
    </div>
  );
}

type Label = 'tags' | 'note' | 'group';

const labelNames = (): readonly (readonly [Label, string])[] => [
  ['tags', trans.__('Tag…')],
  ['note', trans.__('Note…')],
  ['group', trans.__('Group…')]
];

function LabelForm({
  label,
  labels,
  onSave
}: {
  readonly label: Label;
  readonly labels: RunLabels;
  readonly onSave: (labels: RunLabels) => void;
}): JSX.Element {
  const [text, setText] = useState(label === 'tags' ? (labels.tags ?? []).join(', ') : (labels[label] ?? ''));
  const names = {
    tags: trans.__('Tags, separated by commas'),
    note: trans.__('Note'),
    group: trans.__('Group')
  };
  return (
    <form
      className="jp-TPULabRuns-form"
      onSubmit={event => {
        event.preventDefault();
        const tags = [...new Set(text.split(',').map(tag => tag.trim()))].filter(tag => tag !== '');
        onSave(label === 'tags' ? { tags } : { [label]: text.trim() });
      }}
    >
      <label>
        {names[label]}{' '}
        <input
          autoFocus
          className="jp-TPULab-input"
          maxLength={label === 'note' ? 2_000 : label === 'group' ? 80 : 600}
          value={text}
          onChange={event => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" className="jp-TPULab-button jp-mod-primary">
        {trans.__('Save')}
      </button>
    </form>
  );
}

/** Curves of all chosen runs, and two of them compared. */
function Chosen({ runs, loop, onGoTo }: ChosenProps): JSX.Element {
  const [pair, setPair] = useState<readonly [number, number]>([0, 1]);
  const [hidden, setHidden] = useState<readonly string[] | null>(null);
  const lettered = runs.map((one, at) => ({ ...one, letter: LETTERS[at] ?? '' }));
  const sources = lettered.flatMap(one => storedSource(one, `${one.letter} ${one.summary.name}`) ?? []);
  const names = metricNames(runs.flatMap(({ body }) => Object.keys(body?.series ?? {})));
  const shown = names.filter((name, at) => (hidden === null ? at < CHARTS_SHOWN : !hidden.includes(name)));
  const [one, other] = pair.map((at, side) => lettered[at] ?? lettered[side]);
  const pick = (side: 0 | 1, at: number): void => setPair(side === 0 ? [at, pair[1]] : [pair[0], at]);
  return (
    <div className="jp-TPULabRuns-compared">
      <div className="jp-TPULabRuns-part">
        {runs.length > 2 ? (
          <p className="jp-TPULab-row">
            {([0, 1] as const).map(side => (
              <label key={side}>
                {side === 0 ? trans.__('Compare') : trans.__('with')}{' '}
                <select value={pair[side]} onChange={event => pick(side, Number(event.currentTarget.value))}>
                  {lettered.map(({ letter, summary }, at) => (
                    <option key={letter} value={at}>
                      {letter} {summary.name}
                    </option>
                  ))}
                </select>
              </label>
            ))}
          </p>
        ) : null}
        {one?.body && other?.body && one.key !== other.key ? (
          <CompareView
            runs={[
              { letter: one.letter, run: one.body },
              { letter: other.letter, run: other.body }
            ]}
            onGoTo={onGoTo}
          />
        ) : (
          <p className="jp-TPULab-quiet">
            {sources.length < runs.length
              ? trans.__('Loading the runs…')
              : trans.__('Choose another run to see which one is slower, and why.')}
          </p>
        )}
      </div>
      <div className="jp-TPULabRuns-part">
        {names.length > 1 ? (
          <span className="jp-TPULab-choice" role="group" aria-label={trans.__('Metrics')}>
            {names.map(name => (
              <button
                key={name}
                type="button"
                className="jp-TPULab-option"
                aria-pressed={shown.includes(name)}
                onClick={() => setHidden(names.filter(each => (each === name) === shown.includes(each)))}
              >
                {name}
              </button>
            ))}
          </span>
        ) : null}
        <MetricsView
          sources={sources}
          names={names}
          opened={shown}
          hasTiles={false}
          onToggle={() => undefined}
          version={runs.map(({ key, body }) => `${key} ${body?.lastAt ?? ''}`).join(' ')}
          loop={loop}
        />
      </div>
    </div>
  );
}

const CHARTS_SHOWN = 3;
