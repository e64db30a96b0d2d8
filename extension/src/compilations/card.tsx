/** One compilation: function, duration, place, reason and advice. */
import type { JSX } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import { type CodeLocation, durationText, secondsText } from '@tpulab/protocol';
import type { Compilation } from '../events/compilation-log.js';
import { fromBackticks } from '../text/marked.js';
import { Marked } from '../ui/marked-view.js';
import { hostsText } from '../text/hosts.js';
import { cacheText, locationText, reasonPieces } from './reason.js';

export interface CompilationCardProps {
  readonly entry: Compilation;
  /** The card above gives the same cache reason, so this card shows only the outcome. */
  readonly sameCache: boolean;
  /** Unix milliseconds by the kernel's clock. */
  readonly now: number;
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly trans: TranslationBundle;
}

export function CompilationCard({ entry, sameCache, now, onGoTo, trans }: CompilationCardProps): JSX.Element {
  const pieces = reasonPieces(entry.reason, trans);
  const place = locationText(entry.location, trans);
  const goTo = entry.location && place !== '' ? onGoTo(entry.location) : null;
  const { advice } = entry.reason;
  const cache = cacheText(entry.cache, { short: sameCache }, trans);
  return (
    <li className={`jp-TPULabCard jp-mod-${entry.state}${entry.variant > 1 ? ' jp-mod-again' : ''}`}>
      <div className="jp-TPULab-row">
        <span className="jp-TPULabCard-title">
          <span className="jp-TPULabCard-name">{entry.function}</span> {titleText(entry, trans)}
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
          {trans.__('Only on %1: the hosts differ here.', hostsText(entry.hosts, trans))}
        </p>
      ) : null}
      {cache !== '' ? <p className="jp-TPULab-quiet jp-TPULabCard-cache">{cache}</p> : null}
    </li>
  );
}

/** The text after the name of the function. */
export function titleText(entry: Compilation, trans: TranslationBundle): string {
  switch (entry.state) {
    case 'running':
      return trans.__('compiling…');
    case 'failed':
      return trans.__('failed to compile');
    case 'interrupted':
      return trans.__('not finished: the kernel ended');
    case 'finished':
      if (entry.cacheHit) {
        return trans.__('from cache');
      }
      return entry.variant > 1 ? trans.__('recompiled') : trans.__('compiled');
  }
}

export function timeText(entry: Compilation, now: number): string {
  if (entry.state === 'running') {
    return secondsText(now - entry.startedAt);
  }
  return entry.durationMs === null ? '' : durationText(entry.durationMs);
}
