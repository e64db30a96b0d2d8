/** "Pre-flight": whether the programs of a notebook fit the chips, and what to change. The chips are columns. Loaded when it is opened. */
import {
  type CodeLocation,
  fitOf,
  type NotebookCheck,
  secondsText,
  sizeText,
  type StoredCheck
} from '@tpulab/protocol';
import { type JSX, useEffect, useId, useRef, useState } from 'react';
import { download } from '../platform/download.js';
import { CopyButton } from '../remotes/dialog/command-line.js';
import { FitMark, fitText } from '../remotes/dialog/fit.js';
import { Bar } from '../remotes/dialog/stages-view.js';
import { momentText } from '../text/moment.js';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import '../../../style/preflight.css';
import type { Preflight } from './model.js';
import {
  type CheckedMachine,
  type CheckedProgram,
  gibText,
  markdownOf,
  perChip,
  placeText,
  programName,
  stepText,
  sumsOf,
  verdict
} from './report-text.js';
import { trans } from '../text/trans.js';

/** Machine types that are offered; others are typed. */
const COMMON_MACHINES = ['v4-8', 'v5e-1', 'v5e-8', 'v5p-8', 'v6e-1', 'v6e-8', '7x-8'];
const DEFAULT_MACHINES = 'v5e-8, v6e-8, v5p-8, 7x-8';

interface PreflightViewProps {
  readonly preflight: Preflight;
  /** Null where the code cannot be shown. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
}

export default function PreflightView(props: PreflightViewProps): JSX.Element {
  const { preflight } = props;
  useChanges(preflight, false, 0);
  useEffect(() => {
    const refresh = (): void => void preflight.refresh();
    refresh();
    preflight.saved.connect(refresh);
    return () => void preflight.saved.disconnect(refresh);
  }, [preflight]);
  const { status, problem } = preflight;
  if (!status) {
    return <p className="jp-TPULab-quiet">{problem ?? trans.__('Loading…')}</p>;
  }
  const { state, error, last, compiler, machines } = status;
  const why = problem ?? (state === 'failed' ? error?.message : null);
  return (
    <div className="jp-TPULabPreflight">
      {why == null ? null : (
        <p className="jp-TPULabAlert jp-mod-error" role="alert">
          {why}
        </p>
      )}
      {state === 'running' ? (
        <Progress {...props} check={status} />
      ) : compiler.state === 'unsupported' && machines.length === 0 ? (
        <p>
          {trans.__(
            'The TPU compiler exists for Linux on x86-64 only. Connect a machine to check this notebook there.'
          )}
        </p>
      ) : (
        <Begin {...props} check={status} key={preflight.path} />
      )}
      {state === 'cancelled' ? <p role="status">{trans.__('The check was stopped.')}</p> : null}
      {last === null ? null : <Report {...props} last={last} isRunning={state === 'running'} />}
    </div>
  );
}

type StateProps = PreflightViewProps & { readonly check: NotebookCheck };

function Begin({ preflight, check }: StateProps): JSX.Element {
  const { compiler, machines, last } = check;
  const isElsewhere = compiler.state === 'unsupported';
  const [on, setOn] = useState(machines[0] ?? '');
  const [text, setText] = useState(last?.chips ?? DEFAULT_MACHINES);
  const [propose, setPropose] = useState(false);
  const [saveCompiled, setSaveCompiled] = useState(last !== null && last.report.compiled !== null);
  const id = useId();
  const chosen = text
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean);
  const change = (name: string, isChosen: boolean): void =>
    setText((isChosen ? [...chosen, name] : chosen.filter(one => one !== name)).join(', '));
  const size = compiler.diskMiB === null ? trans.__('unknown') : sizeText(compiler.diskMiB * 2 ** 20);
  return (
    <form
      onSubmit={event => {
        event.preventDefault();
        const request = { chips: chosen.join(', '), propose, saveCompiled };
        void preflight.check(isElsewhere ? { ...request, on } : request);
      }}
    >
      {last === null ? (
        <p>
          {trans.__(
            "Know before you pay: runs the saved notebook on this computer's CPU and compiles its programs for these chips. The kernel is not used."
          )}
        </p>
      ) : null}
      {compiler.state === 'missing' ? (
        <p>{trans.__('Needs the TPU compiler once: %1 on disk, in the environment aot.', size)}</p>
      ) : null}
      {isElsewhere ? (
        <label>
          {trans.__("Check on, with a copy of the notebook's folder")}
          <select className="jp-TPULab-input" value={on} onChange={event => setOn(event.target.value)}>
            {machines.map(name => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      ) : null}
      <fieldset>
        <legend>{trans.__('Chips')}</legend>
        {COMMON_MACHINES.map(name => (
          <label key={name}>
            <input
              type="checkbox"
              checked={chosen.includes(name)}
              onChange={event => change(name, event.target.checked)}
            />
            {name}
          </label>
        ))}
      </fieldset>
      <label htmlFor={id}>{trans.__('Machine types')}</label>
      <input
        id={id}
        className="jp-TPULab-input"
        value={text}
        pattern="[A-Za-z0-9 ,\-]+"
        title={trans.__('Machine types, with commas: v5e-8, v6e-8')}
        required
        spellCheck={false}
        autoComplete="off"
        onChange={event => setText(event.target.value)}
      />
      <label>
        <input type="checkbox" checked={propose} onChange={event => setPropose(event.target.checked)} />
        {trans.__('Search better layouts too, for 5 min per machine type at most')}
      </label>
      <label>
        <input
          type="checkbox"
          checked={saveCompiled}
          onChange={event => setSaveCompiled(event.target.checked)}
        />
        {trans.__('Keep the compiled programs for a machine that is being set up')}
      </label>
      <button type="submit" className={`jp-TPULab-button ${last === null ? 'jp-mod-primary' : ''}`}>
        {compiler.state === 'missing'
          ? trans.__('Install and check')
          : last === null
            ? trans.__('Check this notebook')
            : trans.__('Check again')}
      </button>
    </form>
  );
}

function Progress({ preflight, check }: StateProps): JSX.Element {
  useSeconds(true);
  const { detail, fraction, startedAt } = check;
  return (
    <div>
      <div className="jp-TPULab-row">
        <span role="status">
          <span className="jp-TPULabRing" /> {detail ?? trans.__('Starting…')}
        </span>
        <span className="jp-TPULab-number jp-TPULab-quiet">
          {startedAt === null ? '' : secondsText(Math.max(0, Date.now() - startedAt))}
        </span>
      </div>
      <Bar fraction={fraction ?? 0} label={trans.__('Progress')} />
      <button type="button" className="jp-TPULab-button" onClick={() => void preflight.stop()}>
        {trans.__('Stop')}
      </button>
    </div>
  );
}

type ReportProps = PreflightViewProps & {
  readonly last: StoredCheck;
  /** In a dialog, with every figure on the page instead of in tooltips. */
  readonly isWide?: boolean;
};

function Report(props: ReportProps & { readonly isRunning: boolean }): JSX.Element {
  const { last, isRunning, preflight } = props;
  const { report, isCurrent } = last;
  const [isWide, setWide] = useState(false);
  const [exportProblem, setExportProblem] = useState<string | null>(null);
  const all = report.machines.map(({ name }) => fitOf(report, name));
  const card = all.includes('no') ? 'Alert jp-mod-error' : `Say ${all.includes('tight') ? 'jp-mod-act' : ''}`;
  const save = async (): Promise<void> => {
    try {
      const text = `${JSON.stringify(await preflight.report(), null, 1)}\n`;
      download(`${preflight.path}.check.json`, text, 'application/json');
      setExportProblem(null);
    } catch (error) {
      setExportProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const asMarkdown = (): void => {
    const name = preflight.path.split('/').at(-1) ?? '';
    download(`${preflight.path}.check.md`, markdownOf(name, report), 'text/markdown');
  };
  return (
    <>
      <div className={`jp-TPULab${card}`}>
        <p role="status">{verdict(report)}</p>
        {isCurrent || isRunning ? null : (
          <p>{trans.__('The code has changed since this check. Check again.')}</p>
        )}
      </div>
      <Figures {...props} />
      <div className="jp-TPULab-row">
        <button type="button" className="jp-TPULab-button" onClick={() => setWide(true)}>
          {trans.__('Open wide')}
        </button>
        <button type="button" className="jp-TPULab-button" onClick={() => void save()}>
          {trans.__('Export JSON')}
        </button>
        <button type="button" className="jp-TPULab-button" onClick={asMarkdown}>
          {trans.__('Export Markdown')}
        </button>
      </div>
      {exportProblem === null ? null : <p role="alert">{exportProblem}</p>}
      {isWide ? <Wide {...props} onClose={() => setWide(false)} /> : null}
    </>
  );
}

function Wide({ onClose, ...props }: ReportProps & { readonly onClose: () => void }): JSX.Element {
  const { preflight, onGoTo } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const close = (): void => dialog.current?.close();
  const goTo: PreflightViewProps['onGoTo'] = location => {
    const go = onGoTo(location);
    return (
      go &&
      (() => {
        close();
        go();
      })
    );
  };
  const title = trans.__('Pre-flight of %1', preflight.path);
  return (
    <dialog
      ref={dialog}
      className="jp-TPULabPreflight jp-TPULabPreflight-wide"
      aria-label={title}
      onClose={onClose}
    >
      <div className="jp-TPULab-row">
        <h2>{title}</h2>
        <button type="button" className="jp-TPULab-button" onClick={close}>
          {trans.__('Close')}
        </button>
      </div>
      <Figures {...props} onGoTo={goTo} isWide />
    </dialog>
  );
}

function Figures(props: ReportProps): JSX.Element {
  const { last, isWide = false } = props;
  const { machines, totals, jax, libtpu, compiled } = last.report;
  return (
    <>
      <Table {...props} />
      <Findings {...props} />
      {machines.map(machine => (
        <Proposals
          key={machine.name}
          machine={machine}
          found={totals[machine.name]?.proposals}
          isWide={isWide}
        />
      ))}
      {compiled === null ? null : (
        <p>
          {trans.__(
            'The programs are compiled (%1): copy this folder to the machine, and kernels that start in it load them.',
            sizeText(compiled.bytes)
          )}
        </p>
      )}
      <p className="jp-TPULab-quiet">
        {trans.__(
          'Checked %1 with JAX %2, libtpu %3. Lower bounds: a real step takes longer.',
          momentText(last.checkedAt, Date.now()),
          jax ?? trans.__('unknown'),
          libtpu ?? trans.__('unknown')
        )}
      </p>
      <Prices {...props} key={last.report.prices.date} />
    </>
  );
}

/** The date of the price list, and the prices of the checked chips. */
function Prices({ last, preflight }: ReportProps): JSX.Element {
  const { prices, machines } = last.report;
  const [isOpen, setOpen] = useState(false);
  const kinds = [...new Set(machines.map(({ kind }) => kind))];
  const submit = (form: HTMLFormElement): void => {
    const entered = kinds.map(kind => [kind, new FormData(form).get(kind)] as const);
    const others = Object.entries(prices.chipHourUsd).filter(([kind]) => !kinds.includes(kind));
    const known = entered
      .filter(([, text]) => text !== '')
      .map(([kind, text]) => [kind, Number(text)] as const);
    void preflight.setPrices(Object.fromEntries([...others, ...known])).then(() => setOpen(false));
  };
  return (
    <>
      <p className="jp-TPULab-quiet">
        {trans.__('Price list of %1.', prices.date)}{' '}
        {prices.own === null ? (
          trans.__('It is named in tpulab.toml.')
        ) : (
          <button
            type="button"
            className="jp-TPULab-link"
            aria-expanded={isOpen}
            onClick={() => setOpen(!isOpen)}
          >
            {trans.__('Edit prices')}
          </button>
        )}
      </p>
      {isOpen ? (
        <form
          aria-label={trans.__('Prices')}
          onSubmit={event => {
            event.preventDefault();
            submit(event.currentTarget);
          }}
        >
          <p>{trans.__('US dollars per chip and hour; empty: unknown. Saved in %1.', prices.own ?? '')}</p>
          {kinds.map(kind => (
            <label key={kind}>
              {kind}{' '}
              <input
                className="jp-TPULab-input"
                name={kind}
                type="number"
                min={0}
                max={1_000_000}
                step="any"
                defaultValue={prices.chipHourUsd[kind] ?? ''}
              />
            </label>
          ))}
          <button type="submit" className="jp-TPULab-button">
            {trans.__('Save prices')}
          </button>
        </form>
      ) : null}
    </>
  );
}

function Table(props: ReportProps): JSX.Element {
  const { last, isWide = false } = props;
  const { machines, programs } = last.report;
  const sums = sumsOf(last.report);
  return (
    <div
      className="jp-TPULabTable-scroll jp-TPULabPreflight-table"
      role="region"
      aria-label={trans.__('Memory per chip')}
      tabIndex={0}
    >
      <table>
        <caption className="jp-TPULab-unseen">
          {trans.__('Programs of the notebook, and the memory that each needs on a chip')}
        </caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('GiB per chip')}</th>
            {machines.map(machine => (
              <th key={machine.name} scope="col">
                {machine.name}
                <small>{trans._n('%1 chip', '%1 chips', machine.chips)}</small>
                <small>{trans.__('%1 GiB', Number(perChip(machine.usableBytes, machine).toFixed(2)))}</small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {programs.map(program => (
            <tr key={`${programName(program)} ${placeText(program.place)}`}>
              <th scope="row">
                <code>{programName(program)}</code>
                <Place {...props} place={program.place} />
              </th>
              {machines.map(machine => (
                <Need key={machine.name} result={program.results[machine.name]} {...{ machine, isWide }} />
              ))}
            </tr>
          ))}
          {sums.map(([title, texts]) => (
            <tr key={title}>
              <th scope="row">{title}</th>
              {machines.map(({ name }, at) => (
                <td key={name}>{texts[at] ?? '–'}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface NeedProps {
  readonly result: CheckedProgram['results'][string] | undefined;
  readonly machine: CheckedMachine;
  readonly isWide: boolean;
}

function Need({ result, machine, isWide }: NeedProps): JSX.Element {
  const fit = result === undefined || result.fits === 'refused' ? 'unknown' : result.fits;
  const need = result?.need ?? null;
  const seconds = result && trans.__('compiled in %1 s', result.compileSeconds.toFixed(1));
  const share = need === null ? 0 : Math.min(1, need / machine.usableBytes);
  const free = need === null ? 0 : machine.usableBytes - need;
  return (
    <td title={[fitText(fit), result?.note, seconds].filter(Boolean).join(' · ')}>
      <FitMark fit={fit}>
        <span className={isWide ? '' : 'jp-TPULab-unseen'}>{fitText(fit)} </span>
        {need === null ? null : gibText(need, machine)}
      </FitMark>
      {isWide && need !== null ? (
        <small>
          {free >= 0
            ? trans.__('%1 free', gibText(free, machine))
            : trans.__('%1 too much', gibText(-free, machine))}
          {seconds && ` · ${seconds}`}
        </small>
      ) : null}
      <span className={`jp-TPULabBar jp-mod-${fit}`} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
    </td>
  );
}

function Findings(props: ReportProps): JSX.Element {
  const { last } = props;
  const { findings } = last.report;
  const level = {
    error: ['no', trans.__('Error')],
    warning: ['tight', trans.__('Warning')],
    note: ['unknown', trans.__('Note')]
  } as const;
  return findings.length === 0 ? (
    <p>{trans.__('Nothing to change was found.')}</p>
  ) : (
    <ul aria-label={trans.__('Findings')}>
      {findings.map(finding => (
        <li key={`${finding.rule} ${finding.where} ${finding.message}`}>
          <FitMark fit={level[finding.level][0]}>
            <span className="jp-TPULab-unseen">{level[finding.level][1]}: </span>
          </FitMark>
          <span>
            {finding.message} {finding.place ? <Place {...props} place={finding.place} /> : null}
          </span>
        </li>
      ))}
    </ul>
  );
}

interface ProposalsProps {
  readonly machine: CheckedMachine;
  readonly found: StoredCheck['report']['totals'][string]['proposals'];
  readonly isWide: boolean;
}

/** The best layout, its figures, and its lines to copy. */
function Proposals({ machine, found, isWide }: ProposalsProps): JSX.Element | null {
  const best = found?.rows.find(({ fits, equal }) => fits && equal !== false);
  if (!found || !best) {
    return found?.reason ? <p>{`${machine.name}: ${found.reason}`}</p> : null;
  }
  return (
    <section aria-label={trans.__('Layout for %1', machine.name)}>
      <p>
        <b>{trans.__('Layout for %1', machine.name)}</b>:{' '}
        {[
          best.name,
          best.need === null ? null : trans.__('%1 GiB per chip', gibText(best.need, machine)),
          trans.__('%1 of collectives a step', sizeText(best.collectiveBytes)),
          best.equal ? trans.__('same numbers on the CPU') : null
        ]
          .filter(Boolean)
          .join(', ')}
      </p>
      {isWide ? <Layouts {...{ machine, rows: found.rows }} /> : null}
      {found.code.length === 0 ? null : (
        <>
          <pre>{found.code.join('\n')}</pre>
          <CopyButton text={found.code.join('\n')} />
        </>
      )}
    </section>
  );
}

interface LayoutsProps {
  readonly machine: CheckedMachine;
  readonly rows: NonNullable<ProposalsProps['found']>['rows'];
}

/** All compiled layouts, the best first. */
function Layouts({ machine, rows }: LayoutsProps): JSX.Element {
  const heads = [
    trans.__('Layout'),
    trans.__('Batch'),
    trans.__('GiB per chip'),
    trans.__('Collectives'),
    trans.__('Step at least'),
    trans.__('Same numbers')
  ];
  return (
    <div className="jp-TPULabTable-scroll jp-TPULabPreflight-table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {heads.map(head => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, batch, need, fits, collectiveBytes, seconds, equal }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{batch}</td>
              <td>
                <FitMark fit={fits ? 'fits' : 'no'}>{need === null ? '–' : gibText(need, machine)}</FitMark>
              </td>
              <td>{fits ? sizeText(collectiveBytes) : '–'}</td>
              <td>{seconds === null ? '–' : stepText(seconds)}</td>
              <td>{equal === null ? '–' : equal ? trans.__('yes') : trans.__('no')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type PlaceOf = CheckedProgram['place'];

/** A link if the open notebook contains the cell. */
function Place({ place, last, onGoTo }: ReportProps & { readonly place: PlaceOf }): JSX.Element {
  const { cell, line } = place;
  const cellId = cell === null ? null : (last.cellIds[cell - 1] ?? null);
  const go =
    cellId === null ? null : onGoTo({ cellId, line, executionCount: null, file: null, function: null });
  return go ? (
    <button type="button" className="jp-TPULab-link" title={trans.__('Go to this line')} onClick={go}>
      {placeText(place)}
    </button>
  ) : (
    <span className="jp-TPULab-quiet">{placeText(place)}</span>
  );
}
