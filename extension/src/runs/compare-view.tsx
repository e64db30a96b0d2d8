/** Why one run is slower than another: a sentence, a bar of spans for each, and the programs and settings that differ. */
import {
  type CodeLocation,
  compareRuns,
  countText,
  durationText,
  type StoredRun,
  RUN_SPANS,
  type RunComparison,
  type RunProgram,
  type RunSpan,
  ownValue
} from '@tpulab/protocol';
import type { JSX } from 'react';
import { spanName } from '../steps/span-names.js';
import { valueText } from '../text/value.js';
import { trans } from '../text/trans.js';

interface LetteredRun {
  readonly letter: string;
  readonly run: StoredRun;
}

interface CompareViewProps {
  readonly runs: readonly [LetteredRun, LetteredRun];
  /** Null where the cell is in no open notebook. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
}

export function CompareView({ runs, onGoTo }: CompareViewProps): JSX.Element {
  const [one, other] = runs;
  const found = compareRuns(one.run, other.run);
  const [a, b] = found.a === one.run ? [one, other] : [other, one];
  const { text, detail, location } = sentence(found, a.letter, b.letter);
  const go = location && onGoTo(location);
  const isSlower = found.verdict === 'slower' || found.verdict === 'recompiles';
  return (
    <section className="jp-TPULabCompare" aria-label={trans.__('Steps of %1 and %2', a.run.name, b.run.name)}>
      <div className={`jp-TPULabCompare-why jp-mod-${isSlower ? 'slower' : found.verdict}`} role="status">
        <h3>
          {isSlower
            ? trans.__('Why is %1 slower than %2?', b.letter, a.letter)
            : trans.__('%1 and %2', a.letter, b.letter)}
        </h3>
        <p>{text}</p>
        {detail === '' ? null : <p className="jp-TPULab-quiet">{detail}</p>}
        {go ? (
          <button type="button" className="jp-TPULab-button jp-mod-primary" onClick={go}>
            {trans.__('Go to %1', placeText(location))}
          </button>
        ) : null}
      </div>
      {found.meansOfA && found.meansOfB ? <Bars found={found} a={a} b={b} /> : null}
      <Programs found={found} a={a} b={b} />
      {found.differing.length > 0 ? (
        <>
          <h4>{trans.__('Settings that differ')}</h4>
          <dl className="jp-TPULabCompare-settings">
            {found.differing.map(name => (
              <div key={name} className="jp-TPULab-row">
                <dt>{name}</dt>
                <dd className="jp-TPULab-number">
                  {settingText(a.run, name)} → {settingText(b.run, name)}
                </dd>
              </div>
            ))}
          </dl>
        </>
      ) : null}
    </section>
  );
}

interface Sentence {
  readonly text: string;
  readonly detail: string;
  /** The place to check first. */
  readonly location: CodeLocation | null;
}

/** The known facts, without speculation. */
export function sentence(found: RunComparison, a: string, b: string): Sentence {
  const { meansOfA, meansOfB, grew, changed, same, added } = found;
  const nowhere = { detail: '', location: null };
  if (found.verdict === 'other-machine') {
    return {
      text: trans.__(
        'Steps are not compared: %1 ran on %2, %3 on %4.',
        ...[a, found.a.machine ?? '', b, found.b.machine ?? '']
      ),
      detail: trans.__('Curves and configuration still are.'),
      location: null
    };
  }
  if (found.verdict === 'recompiles') {
    const programs = found.b.programs ?? [];
    const eachMs = found.b.totals.compileMs / Math.max(1, programs.length);
    const last = programs.at(-1);
    return {
      text: trans.__(
        '%1 compiles again and again: %2 times in %3 steps, %4 each.',
        ...[b, countText(programs.length), countText(found.b.steps), durationText(eachMs)]
      ),
      detail: last ? compiledText(last) : '',
      location: last?.location ?? null
    };
  }
  if (found.verdict === 'too-early' || !meansOfA || !meansOfB) {
    return { text: trans.__('The comparison starts after 10 steps without a compilation.'), ...nowhere };
  }
  if (found.verdict === 'same') {
    return {
      text: trans.__(
        '%1 and %2 take the same time per step: %3 and %4.',
        ...[a, b, durationText(meansOfA.stepMs), durationText(meansOfB.stepMs)]
      ),
      detail: trans.__('The difference is smaller than the noise of either run.'),
      location: null
    };
  }
  const moreMs = meansOfB.stepMs - meansOfA.stepMs;
  const largest = grew.filter(({ ms }) => ms > moreMs / 10).slice(0, 2);
  const device = largest.some(({ span }) => span === 'device');
  const other = changed[0]?.b ?? null;
  const why = device
    ? other
      ? [trans.__('%1 is another program in %2.', other.function, b)]
      : same > 0 && largest[0]?.span === 'device'
        ? [trans.__('The program is the same, so a trace has to show where.')]
        : []
    : [];
  return {
    text: [
      trans.__('%1 takes %2 more per step.', b, durationText(moreMs)),
      ...largest.map(({ span, ms }) => grewText(span, ms))
    ].join(' '),
    detail: [
      ...why,
      ...(grew.length === 0 ? [trans.__('Device time is known of one of them only.')] : [])
    ].join(' '),
    location: (device ? other?.location : null) ?? added[0]?.location ?? null
  };
}

function grewText(span: RunSpan, ms: number): string {
  const more = durationText(ms);
  switch (span) {
    case 'device':
      return trans.__('%1 of it is device time.', more);
    case 'input':
      return trans.__('It waits %1 longer for input.', more);
    case 'host':
      return trans.__('Python takes %1 longer.', more);
    case 'gap':
      return trans.__('The device is idle %1 longer.', more);
  }
}

interface PartProps {
  readonly found: RunComparison;
  readonly a: LetteredRun;
  readonly b: LetteredRun;
}

function Bars({ found: { from, to, meansOfA, meansOfB, grew }, a, b }: PartProps): JSX.Element | null {
  if (!meansOfA || !meansOfB) {
    return null;
  }
  const longest = Math.max(meansOfA.stepMs, meansOfB.stepMs);
  const rows = [
    { ...a, means: meansOfA },
    { ...b, means: meansOfB }
  ];
  return (
    <>
      <h4>{trans.__('Where the time grew')}</h4>
      <p className="jp-TPULab-quiet">
        {trans.__(
          'Mean of steps %1 to %2, without compilations and evaluations',
          ...[countText(from), countText(Math.max(from, to - 1))]
        )}
      </p>
      {rows.map(({ letter, run, means }) => (
        <div key={letter} className="jp-TPULabCompare-bar">
          <Letter letter={letter} />
          <div
            className="jp-TPULabSplit"
            role="img"
            aria-label={trans.__('%1: %2 per step', run.name, durationText(means.stepMs))}
          >
            {RUN_SPANS.map(span => (
              <span
                key={span}
                className={`jp-TPULabSplit-part jp-mod-${span}`}
                style={{ width: `${longest > 0 ? (means.spans[span] / longest) * 100 : 0}%` }}
              />
            ))}
          </div>
          <strong className="jp-TPULab-number">{durationText(means.stepMs)}</strong>
        </div>
      ))}
      <table className="jp-TPULabRuns-figures">
        <thead>
          <tr>
            <th scope="col">{trans.__('per step')}</th>
            {rows.map(({ letter }) => (
              <th key={letter} scope="col">
                {letter}
              </th>
            ))}
            <th scope="col">{trans.__('change')}</th>
          </tr>
        </thead>
        <tbody>
          {RUN_SPANS.map(span => (
            <tr key={span} className={grew[0]?.span === span && grew[0].ms > 0 ? 'jp-mod-grew' : undefined}>
              <th scope="row">
                <span className={`jp-TPULabLegend-key jp-mod-${span}`} aria-hidden="true" /> {spanName(span)}
              </th>
              {rows.map(({ letter, means }) => (
                <td key={letter}>{durationText(means.spans[span])}</td>
              ))}
              <td>{signed(grew.find(one => one.span === span)?.ms)}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">{trans.__('step')}</th>
            {rows.map(({ letter, means }) => (
              <td key={letter}>{durationText(means.stepMs)}</td>
            ))}
            <td>{signed(meansOfB.stepMs - meansOfA.stepMs)}</td>
          </tr>
        </tbody>
      </table>
    </>
  );
}

function Programs({ found: { changed, same, added }, a, b }: PartProps): JSX.Element | null {
  return (
    <>
      {changed.length > 0 ? (
        <>
          <h4>
            {trans._n('%1 program changed', '%1 programs changed', changed.length)}{' '}
            <span className="jp-TPULab-quiet">
              {trans._n('%1 program is the same', '%1 programs are the same', same)}
            </span>
          </h4>
          <table className="jp-TPULabRuns-figures">
            <thead>
              <tr>
                <th scope="col">{trans.__('function')}</th>
                <th scope="col">{trans.__('program in %1', a.letter)}</th>
                <th scope="col">{trans.__('program in %1', b.letter)}</th>
              </tr>
            </thead>
            <tbody>
              {changed.map(pair => (
                <tr key={pair.function}>
                  <th scope="row">
                    <code>{pair.function}</code> {placeText(pair.b.location)}
                  </th>
                  <td>{pair.a.fingerprint}</td>
                  <td>{pair.b.fingerprint}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      ) : null}
      {added.length > 0 ? (
        <>
          <h4>
            {trans._n('%1 compilation is new in %2', '%1 compilations are new in %2', added.length, b.letter)}
          </h4>
          <ul className="jp-TPULabCompare-compiled">
            {added.slice(0, 5).map((program, at) => (
              <li key={at}>
                {compiledText(program)} <span className="jp-TPULab-quiet">{placeText(program.location)}</span>
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </>
  );
}

export function compiledText({ function: name, step, ms, reason }: RunProgram): string {
  const from =
    reason.before === null || reason.after === null
      ? ''
      : `: ${reason.argument ?? ''} ${reason.before} → ${reason.after}`;
  return trans.__('%1 at step %2, %3%4', name, countText(step), durationText(ms), from);
}

/** For example `cell [3], line 6`; empty where unknown. */
export function placeText(location: CodeLocation | null): string {
  if (location === null) {
    return '';
  }
  const { executionCount, file, line } = location;
  const place = executionCount === null ? file : trans.__('cell [%1]', executionCount);
  return place === null ? '' : line === null ? place : trans.__('%1, line %2', place, line);
}

export function Letter({ letter }: { readonly letter: string }): JSX.Element {
  return <span className={`jp-TPULabLetter jp-mod-${letter.toLowerCase()}`}>{letter}</span>;
}

function signed(ms: number | undefined): string {
  return ms === undefined ? '–' : `${ms < 0 ? '−' : '+'}${durationText(Math.abs(ms))}`;
}

function settingText({ config }: StoredRun, name: string): string {
  const value = ownValue(config, name);
  return value === undefined || value === null ? '–' : valueText(value);
}
