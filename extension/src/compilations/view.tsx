/** The compilations of a kernel, newest first: what, how long, where, why, and what to do. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CodeLocation } from '@tpulab/protocol';
import { type JSX, memo, useState } from 'react';
import type { Compilation, CompilationLog } from '../events/compilation-log.js';
import { countText, durationText } from '../text/duration.js';
import { CompilationCard } from './card.js';

/** Cards shown before one asks for more. */
export const CARDS_SHOWN = 6;

export interface CompilationsViewProps {
  readonly log: CompilationLog;
  /** Of the log, which changes in place. */
  readonly version: number;
  /** Unix milliseconds by the kernel's clock; of use only while something is being compiled. */
  readonly now: number;
  /** Null where the code cannot be shown, for example when the notebook is not open. */
  /** Why this kernel's compilations cannot be seen; null where they can. */
  readonly whyUnknown: string | null;
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly trans: TranslationBundle;
}

/** Drawn anew for a new version, and each second while something is being compiled. */
export const CompilationsView = memo(function CompilationsView({
  log,
  now,
  whyUnknown,
  onGoTo,
  trans
}: CompilationsViewProps): JSX.Element {
  const [all, setAll] = useState(false);
  const newestFirst = [...log.entries].reverse();
  const shown = all ? newestFirst : newestFirst.slice(0, CARDS_SHOWN);
  const hidden = newestFirst.length - shown.length;
  if (newestFirst.length === 0 && log.eagerCount === 0) {
    return (
      <div className="jp-TPULabEmpty">
        <p>
          {whyUnknown === null
            ? trans.__(
                'Nothing compiled yet. A function under jax.jit appears here when it is compiled, with the reason.'
              )
            : trans.__('Compilations are unknown here. %1', whyUnknown)}
        </p>
      </div>
    );
  }
  return (
    <div className="jp-TPULabCompilations">
      <ol className="jp-TPULabCompilations-list" aria-label={trans.__('Compilations, newest first')}>
        {shown.map((entry: Compilation, at) => (
          <CompilationCard
            key={entry.key}
            entry={entry}
            sameCache={isSameCache(entry, shown[at - 1])}
            now={now}
            onGoTo={onGoTo}
            trans={trans}
          />
        ))}
      </ol>
      {hidden > 0 || all ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? trans.__('Show fewer') : trans._n('Show %1 earlier one', 'Show %1 earlier ones', hidden)}
        </button>
      ) : null}
      {log.eagerCount > 0 ? <EagerLine log={log} trans={trans} /> : null}
    </div>
  );
});

function isSameCache({ cache }: Compilation, above: Compilation | undefined): boolean {
  return cache?.result === above?.cache?.result && cache?.reason === above?.cache?.reason;
}

/** For the heading: `3 · 61.0 s in all`. */
export function totalText(log: CompilationLog, trans: TranslationBundle): string {
  return log.count === 0 ? '' : trans.__('%1 · %2 in all', countText(log.count), durationText(log.totalMs));
}

function EagerLine({ log, trans }: { log: CompilationLog; trans: TranslationBundle }): JSX.Element {
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
