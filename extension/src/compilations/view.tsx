/** The compilations of a kernel, newest first: function, duration, place, reason and advice. */
import { type JSX, memo, useId, useState } from 'react';
import { type CodeLocation, countText, durationText, secondsText } from '@tpulab/protocol';
import type { Compilation, CompilationLog } from '../events/compilation-log.js';
import { Glyph } from '../ui/glyph.js';
import { Marked } from '../ui/marked-view.js';
import { cacheText, locationText, reasonPieces } from './reason.js';
import { fromBackticks } from '../text/marked.js';
import { hostsText } from '../text/hosts.js';
import { trans } from '../text/trans.js';

/** Functions shown before the user expands the list. */
const FUNCTIONS_SHOWN = 6;

interface CompilationsViewProps {
  readonly log: CompilationLog;
  /** Version of the log, which changes in place. */
  readonly version: number;
  /** Unix milliseconds by the kernel's clock; used only while something is being compiled. */
  readonly now: number;
  /** Why this kernel's compilations cannot be observed; null where they can. */
  readonly unknownReason: string | null;
  /** Null where the code cannot be shown, for example when the notebook is not open. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
}

/** Redrawn for a new version, and each second during a compilation. */
export const CompilationsView = memo(function CompilationsView({
  log,
  now,
  unknownReason,
  onGoTo
}: CompilationsViewProps): JSX.Element {
  const [all, setAll] = useState(false);
  const groups = byFunction(log.entries);
  const shown = all ? groups : groups.slice(0, FUNCTIONS_SHOWN);
  const hidden = groups.length - shown.length;
  if (groups.length === 0 && log.eagerCount === 0) {
    return (
      <div className="jp-TPULabEmpty">
        <p>
          {unknownReason === null
            ? trans.__(
                'Nothing compiled yet. A function under jax.jit appears here when it is compiled, with the reason.'
              )
            : trans.__('Compilations are unknown here. %1', unknownReason)}
        </p>
      </div>
    );
  }
  return (
    <div className="jp-TPULabCompilations">
      <ul aria-label={trans.__('Compiled functions, newest first')}>
        {shown.map(entries => (
          <FunctionLine key={entries[0] && placeOf(entries[0])} entries={entries} now={now} onGoTo={onGoTo} />
        ))}
      </ul>
      {hidden > 0 || all ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? trans.__('Show fewer') : trans._n('Show %1 earlier one', 'Show %1 earlier ones', hidden)}
        </button>
      ) : null}
      {log.eagerCount > 0 ? <EagerLine log={log} /> : null}
    </div>
  );
});

/** Functions by their newest compilation, each with its compilations, newest first. */
function byFunction(entries: readonly Compilation[]): Compilation[][] {
  const groups = new Map<string, Compilation[]>();
  for (const entry of [...entries].reverse()) {
    const place = placeOf(entry);
    const group = groups.get(place);
    if (group) group.push(entry);
    else groups.set(place, [entry]);
  }
  return [...groups.values()];
}

/** Lambdas have no names: each code location counts as one function. */
function placeOf({ function: name, location }: Compilation): string {
  return name.startsWith('<') && location
    ? `${name} ${location.cellId ?? location.file ?? ''} ${location.line ?? ''}`
    : name;
}

interface FunctionLineProps extends Pick<CompilationsViewProps, 'now' | 'onGoTo'> {
  /** Newest first; at least one. */
  readonly entries: readonly Compilation[];
}

/** `train_step ×2 recompiled  argument x was f32[256], now f32[176]  22.7 s`; its cards on demand. */
function FunctionLine({ entries, now, onGoTo }: FunctionLineProps): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const [newest] = entries;
  if (!newest) return null;
  const isRunning = newest.state === 'running';
  // The agent's counts continue after this page has dropped the oldest.
  const count = Math.max(entries.length, newest.variant);
  const totalMs = entries.reduce((sum, { durationMs }) => sum + (durationMs ?? 0), 0);
  const reason = reasonPieces(newest.reason);
  return (
    <li className={`jp-TPULabFunction jp-mod-${newest.state}`}>
      <button
        type="button"
        className="jp-TPULabFunction-line"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        <Glyph name="fold" />
        <code>{newest.function}</code>{' '}
        {count > 1 ? <span className="jp-TPULab-quiet">×{countText(count)}</span> : null}{' '}
        <span className={newest.variant > 1 ? 'jp-TPULabFunction-again' : 'jp-TPULab-quiet'}>
          {titleText(newest)}
        </span>{' '}
        <span className="jp-TPULabFunction-reason jp-TPULab-quiet">
          <Marked pieces={reason} />
        </span>{' '}
        <span className="jp-TPULab-number">{isRunning ? timeText(newest, now) : durationText(totalMs)}</span>
      </button>
      <ol
        id={id}
        className="jp-TPULabCompilations-list"
        aria-label={trans.__('Compilations of %1, newest first', newest.function)}
        hidden={!isOpen}
      >
        {isOpen
          ? entries.map((entry, at) => (
              <CompilationCard
                key={entry.id}
                entry={entry}
                sameCache={isSameCache(entry, entries[at - 1])}
                now={now}
                onGoTo={onGoTo}
              />
            ))
          : null}
      </ol>
    </li>
  );
}

function isSameCache({ cache }: Compilation, above: Compilation | undefined): boolean {
  return cache?.result === above?.cache?.result && cache?.reason === above?.cache?.reason;
}

/** For the heading: `3 in 61.0 s`. */
export function totalText(log: CompilationLog): string {
  return log.count === 0 ? '' : trans.__('%1 in %2', countText(log.count), durationText(log.totalMs));
}

function EagerLine({ log }: { log: CompilationLog }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <div className="jp-TPULabEager">
      <button
        type="button"
        className="jp-TPULab-link jp-TPULabEager-button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <span>
          {trans._n('%1 small program outside jit', '%1 small programs outside jit', log.eagerCount)}
        </span>
        <span className="jp-TPULab-number">{durationText(log.eagerTotalMs)}</span>
      </button>
      {open ? (
        <ul className="jp-TPULabEager-list">
          {log.eager.map(({ function: name, count, totalMs }) => (
            <li key={name} className="jp-TPULab-row">
              <code>{name}</code>
              <span className="jp-TPULab-number jp-TPULab-quiet">
                {count > 1 ? `${countText(count)} × · ` : ''}
                {durationText(totalMs)}
              </span>
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  );
}

interface CompilationCardProps {
  readonly entry: Compilation;
  /** The card above gives the same cache reason, so this card shows only the outcome. */
  readonly sameCache: boolean;
  /** Unix milliseconds by the kernel's clock. */
  readonly now: number;
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
}

/** One compilation: function, duration, place, reason and advice. */
function CompilationCard({ entry, sameCache, now, onGoTo }: CompilationCardProps): JSX.Element {
  const pieces = reasonPieces(entry.reason);
  const place = locationText(entry.location);
  const goTo = entry.location && place !== '' ? onGoTo(entry.location) : null;
  const { advice } = entry.reason;
  const cache = cacheText(entry.cache, { short: sameCache });
  return (
    <li className={`jp-TPULabCard jp-mod-${entry.state}${entry.variant > 1 ? ' jp-mod-again' : ''}`}>
      <div className="jp-TPULab-row">
        <span className="jp-TPULabCard-title">
          <span className="jp-TPULabCard-name">{entry.function}</span> {titleText(entry)}
        </span>
        <span className="jp-TPULab-number jp-TPULab-quiet">{timeText(entry, now)}</span>
      </div>
      {place !== '' || pieces.length > 0 ? (
        <p className="jp-TPULabCard-reason">
          {goTo ? (
            <button
              type="button"
              className="jp-TPULab-link"
              title={trans.__('Go to this line')}
              onClick={goTo}
            >
              {place}
            </button>
          ) : (
            place
          )}
          {place !== '' && pieces.length > 0 ? ': ' : ''}
          <Marked pieces={pieces} />
        </p>
      ) : null}
      {advice !== null ? (
        <p className="jp-TPULab-quiet">
          <Marked pieces={fromBackticks(advice)} />
        </p>
      ) : null}
      {entry.hosts ? (
        <p className="jp-TPULabCard-hosts">
          {trans.__('Only on %1: the hosts differ here.', hostsText(entry.hosts))}
        </p>
      ) : null}
      {cache !== '' ? <p className="jp-TPULab-quiet jp-TPULabCard-cache">{cache}</p> : null}
    </li>
  );
}

function titleText(entry: Compilation): string {
  switch (entry.state) {
    case 'running':
      return trans.__('compiling…');
    case 'failed':
      return trans.__('failed to compile');
    case 'interrupted':
      return trans.__('not finished: the kernel ended');
    case 'finished':
      if (entry.cacheHit) return trans.__('from cache');
      return entry.variant > 1 ? trans.__('recompiled') : trans.__('compiled');
  }
}

function timeText(entry: Compilation, now: number): string {
  if (entry.state === 'running') return secondsText(now - entry.startedAt);
  return entry.durationMs === null ? '' : durationText(entry.durationMs);
}
