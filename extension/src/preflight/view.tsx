/** "Pre-flight": whether the programs of a notebook fit the chips, and what to change. The chips are columns. Loaded when it is opened. */
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  type CheckReport,
  type CodeLocation,
  durationText,
  type Fit,
  fitOf,
  type NotebookCheck,
  secondsText,
  sizeText,
  type StoredCheck,
  threeFigures
} from '@tpulab/protocol';
import { type JSX, useEffect, useId, useState } from 'react';
import { CopyButton } from '../remotes/dialog/command-line.js';
import { FitMark, fitText } from '../remotes/dialog/fit.js';
import { Bar } from '../remotes/dialog/stages-view.js';
import { momentText } from '../text/moment.js';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import '../../../style/preflight.css';
import type { Preflight } from './model.js';

/** Machine types that are offered; others are typed. */
const USUAL = ['v4-8', 'v5e-1', 'v5e-8', 'v5p-8', 'v6e-1', 'v6e-8', '7x-8'];
const AT_FIRST = 'v5e-8, v6e-8, v5p-8, 7x-8';
const GIB = 2 ** 30;

export interface PreflightViewProps {
  readonly preflight: Preflight;
  /** Null where the code cannot be shown. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly trans: TranslationBundle;
}

export default function PreflightView(props: PreflightViewProps): JSX.Element {
  const { preflight, trans } = props;
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
  const { state, error, last, compiler } = status;
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
      ) : compiler.state === 'unsupported' ? (
        <p>
          {trans.__(
            'The TPU compiler exists for Linux on x86-64 only, so this computer cannot check notebooks. Run "tpulab check" on a connected machine.'
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

function Begin({ preflight, check, trans }: StateProps): JSX.Element {
  const { compiler, last } = check;
  const [text, setText] = useState(last?.chips ?? AT_FIRST);
  const [propose, setPropose] = useState(false);
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
        void preflight.check({ chips: chosen.join(', '), propose });
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
      <fieldset>
        <legend>{trans.__('Chips')}</legend>
        {USUAL.map(name => (
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

function Progress({ preflight, check, trans }: StateProps): JSX.Element {
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

type ReportProps = PreflightViewProps & { readonly last: StoredCheck };

function Report(props: ReportProps & { readonly isRunning: boolean }): JSX.Element {
  const { last, isRunning, trans } = props;
  const { report, checkedAt, isCurrent } = last;
  const { machines, totals, prices, jax, libtpu } = report;
  const all = machines.map(({ name }) => fitOf(report, name));
  const card = all.includes('no') ? 'Alert jp-mod-error' : `Say ${all.includes('tight') ? 'jp-mod-act' : ''}`;
  return (
    <>
      <div className={`jp-TPULab${card}`}>
        <p role="status">{verdict(report, trans)}</p>
        {isCurrent || isRunning ? null : (
          <p>{trans.__('The code has changed since this check. Check again.')}</p>
        )}
      </div>
      <Table {...props} />
      <Findings {...props} />
      {machines.map(machine => (
        <Proposals
          key={machine.name}
          machine={machine}
          found={totals[machine.name]?.proposals}
          trans={trans}
        />
      ))}
      <p className="jp-TPULab-quiet">
        {trans.__(
          'Checked %1 with JAX %2, libtpu %3. Lower bounds: a real step takes longer. Price list of %4.',
          momentText(checkedAt, Date.now()),
          jax ?? trans.__('unknown'),
          libtpu ?? trans.__('unknown'),
          prices.date
        )}
      </p>
    </>
  );
}

function verdict(report: CheckReport, trans: TranslationBundle): string {
  const sentence = (fit: Fit, text: (names: string) => string): string => {
    const names = report.machines.map(({ name }) => name).filter(name => fitOf(report, name) === fit);
    return names.length === 0 ? '' : text(names.join(', '));
  };
  return [
    sentence('fits', names => trans.__('Fits %1.', names)),
    sentence('tight', names => trans.__('Tight on %1.', names)),
    sentence('no', names => trans.__('Does not fit %1.', names)),
    sentence('unknown', names => trans.__('Unknown for %1.', names))
  ]
    .filter(Boolean)
    .join(' ');
}

type Machine = CheckReport['machines'][number];
type Total = CheckReport['totals'][string];

function Table(props: ReportProps): JSX.Element {
  const { last, trans } = props;
  const { machines, programs } = last.report;
  const sums = sumsOf(last.report, trans);
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
          {programs.map(({ name, variant, place, results }) => (
            <tr key={`${name} ${variant} ${placeText(place)}`}>
              <th scope="row">
                <code>{variant > 1 ? `${name} (${variant})` : name}</code>
                <Place {...props} place={place} />
              </th>
              {machines.map(machine => (
                <Need key={machine.name} result={results[machine.name]} machine={machine} trans={trans} />
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

/** Below the programs, for each machine. An epoch and the largest batch are figures that a check was asked for. */
function sumsOf(
  { machines, programs, totals }: CheckReport,
  trans: TranslationBundle
): (readonly [title: string, texts: readonly (string | null)[]])[] {
  const row = (title: string, text: (total: Total, machine: string) => string | null) =>
    [title, machines.map(({ name }) => (totals[name] ? text(totals[name], name) : null))] as const;
  const money = ({ stepSeconds }: Total, usd: number | null): string | null =>
    stepSeconds === null
      ? null
      : usd === null
        ? trans.__('unknown')
        : usd < 0.01
          ? '< $0.01'
          : `$${usd.toFixed(2)}`;
  const moved = ({ program }: Total, machine: string): string | null => {
    const main = programs.find(({ name }) => name === program)?.results[machine];
    const bytes = main?.collectives.reduce((sum, one) => sum + one.bytes, 0);
    return bytes === undefined ? null : bytes === 0 ? trans.__('none') : sizeText(bytes);
  };
  const requested = [
    row(trans.__('Epoch from'), total =>
      total.usdForEpoch === null ? null : money(total, total.usdForEpoch)
    ),
    row(trans.__('Largest batch'), ({ batch }) => (batch === null ? null : String(batch.fits)))
  ];
  return [
    row(trans.__('Compile, s'), ({ compileSeconds }) => compileSeconds.toFixed(1)),
    row(trans.__('Step at least'), ({ stepSeconds }) =>
      stepSeconds === null ? null : stepText(stepSeconds)
    ),
    row(trans.__('Collectives'), moved),
    row(trans.__('1,000 steps from'), total => money(total, total.usdFor1000Steps)),
    ...requested.filter(([, texts]) => texts.some(text => text !== null))
  ];
}

interface NeedProps {
  readonly result: CheckReport['programs'][number]['results'][string] | undefined;
  readonly machine: Machine;
  readonly trans: TranslationBundle;
}

function Need({ result, machine, trans }: NeedProps): JSX.Element {
  const fit = result === undefined || result.fits === 'refused' ? 'unknown' : result.fits;
  const need = result?.need ?? null;
  const seconds = result && trans.__('compiled in %1 s', result.compileSeconds.toFixed(1));
  const share = need === null ? 0 : Math.min(1, need / machine.usableBytes);
  return (
    <td title={[fitText(fit, trans), result?.note, seconds].filter(Boolean).join(' · ')}>
      <FitMark fit={fit}>
        <span className="jp-TPULab-unseen">{fitText(fit, trans)} </span>
        {need === null ? null : gibText(need, machine)}
      </FitMark>
      <span className={`jp-TPULabBar jp-mod-${fit}`} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
    </td>
  );
}

function Findings(props: ReportProps): JSX.Element {
  const { last, trans } = props;
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
  readonly machine: Machine;
  readonly found: Total['proposals'];
  readonly trans: TranslationBundle;
}

/** The best layout, its figures, and its lines to copy. */
function Proposals({ machine, found, trans }: ProposalsProps): JSX.Element | null {
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
      {found.code.length === 0 ? null : (
        <>
          <pre>{found.code.join('\n')}</pre>
          <CopyButton text={found.code.join('\n')} trans={trans} />
        </>
      )}
    </section>
  );
}

type PlaceOf = CheckReport['programs'][number]['place'];

/** A link where the notebook that is open has the cell. */
function Place({ place, last, onGoTo, trans }: ReportProps & { readonly place: PlaceOf }): JSX.Element {
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

function placeText({ cell, file, line }: PlaceOf): string {
  return cell === null ? `${file}:${line}` : `cell [${cell}]:${line}`;
}

/** A machine may have several devices on a chip. */
function perChip(bytesOnDevice: number, { chips, devices }: Machine): number {
  return (bytesOnDevice * devices) / chips / GIB;
}

function gibText(bytesOnDevice: number, machine: Machine): string {
  const gib = perChip(bytesOnDevice, machine);
  return gib.toFixed(gib >= 9.95 ? 1 : gib >= 0.095 ? 2 : 3);
}

function stepText(seconds: number): string {
  return seconds < 1e-3 ? `${threeFigures(seconds * 1e6)} µs` : durationText(seconds * 1e3);
}
