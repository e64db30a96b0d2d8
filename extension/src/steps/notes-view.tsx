/** The agent's findings: advice with its remedy, and the holders of memory when it ran out. */
import { type AdviceMessage, type CodeLocation, type MemoryErrorMessage, sizeText } from '@tpulab/protocol';
import { type JSX, memo } from 'react';
import { HeldArrays } from '../devices/held-arrays.js';
import { locationText } from '../compilations/reason.js';
import { fromBackticks } from '../text/marked.js';
import { Marked } from '../ui/marked-view.js';
import { trans } from '../text/trans.js';

interface NotesViewProps {
  readonly advice: readonly AdviceMessage[];
  readonly memoryErrors: readonly MemoryErrorMessage[];
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  /** Releases the objects of the last traceback and `Out[]`; null where no request can be sent to the kernel. */
  readonly onFree: (() => void) | null;
}

const ARRAYS_SHOWN = 5;

export const NotesView = memo(
  function NotesView({ advice, memoryErrors, onGoTo, onFree }: NotesViewProps): JSX.Element | null {
    const newest = memoryErrors.at(-1);
    if (advice.length === 0 && !newest) {
      return null;
    }
    return (
      <ul className="jp-TPULabNotes" aria-label={trans.__('Notes and advice')}>
        {newest ? (
          <li className="jp-TPULabCard jp-mod-failed">
            <MemoryError error={newest} onGoTo={onGoTo} onFree={onFree} />
          </li>
        ) : null}
        {advice.map(({ id, message, remedy, location }) => (
          <li key={id} className="jp-TPULabCard jp-mod-advice">
            <p>
              <Marked pieces={fromBackticks(message)} /> <Place location={location} onGoTo={onGoTo} />
            </p>
            <p className="jp-TPULab-quiet">
              <Marked pieces={fromBackticks(remedy)} />
            </p>
          </li>
        ))}
      </ul>
    );
  },
  // The lists are new objects each time; their entries never change.
  (a, b) =>
    a.advice.length === b.advice.length &&
    a.advice.every((one, at) => one === b.advice[at]) &&
    a.memoryErrors.at(-1) === b.memoryErrors.at(-1) &&
    (a.onFree === null) === (b.onFree === null)
);

function MemoryError({
  error,
  onGoTo,
  onFree
}: { readonly error: MemoryErrorMessage } & Pick<NotesViewProps, 'onGoTo' | 'onFree'>): JSX.Element {
  const { requestedBytes, freeBytes, limitBytes, arrays, heldBytes, location, text } = error;
  const held = heldBytes.traceback + heldBytes.outputs;
  return (
    <>
      <p>
        <strong>{trans.__('The device ran out of memory.')}</strong>{' '}
        <Place location={location} onGoTo={onGoTo} />
      </p>
      <p title={text}>
        {requestedBytes === null
          ? text
          : freeBytes === null
            ? trans.__('%1 was requested.', sizeText(requestedBytes))
            : limitBytes === null
              ? trans.__('%1 was requested, %2 was free.', sizeText(requestedBytes), sizeText(freeBytes))
              : trans.__(
                  '%1 was requested, %2 of %3 was free.',
                  sizeText(requestedBytes),
                  sizeText(freeBytes),
                  sizeText(limitBytes)
                )}
      </p>
      <HeldArrays arrays={arrays} shown={ARRAYS_SHOWN} />
      {held > 0 && onFree ? (
        <button type="button" className="jp-TPULab-button" onClick={onFree}>
          {trans.__('Free the %1 that the last traceback and Out[] hold', sizeText(held))}
        </button>
      ) : null}
    </>
  );
}

function Place({
  location,
  onGoTo
}: { readonly location: CodeLocation | null } & Pick<NotesViewProps, 'onGoTo'>): JSX.Element | null {
  const place = locationText(location);
  const goTo = location ? onGoTo(location) : null;
  if (place === '') {
    return null;
  }
  return goTo ? (
    <button type="button" className="jp-TPULab-link" title={trans.__('Go to this line')} onClick={goTo}>
      {place}
    </button>
  ) : (
    <span className="jp-TPULab-quiet">{place}</span>
  );
}
