/** Arrays by size, with the names that hold them. */
import { type MemoryMessage, sizeText } from '@tpulab/protocol';
import type { JSX } from 'react';
import { trans } from '../text/trans.js';

interface HeldArraysProps {
  readonly arrays: MemoryMessage['arrays'];
  readonly shown: number;
}

export function HeldArrays({ arrays, shown }: HeldArraysProps): JSX.Element | null {
  if (arrays.length === 0) return null;
  return (
    <ul className="jp-TPULabNotes-arrays" aria-label={trans.__('Largest live arrays')}>
      {arrays.slice(0, shown).map(({ bytes, count, shape, dtype, names }, at) => (
        <li key={at} className="jp-TPULab-row">
          <span>
            <code>{`${dtype}[${shape.join(',')}]`}</code> {count > 1 ? `× ${count} ` : ''}
            <span className="jp-TPULab-quiet">{names.join(', ')}</span>
          </span>
          <span className="jp-TPULab-number">{sizeText(bytes)}</span>
        </li>
      ))}
    </ul>
  );
}

interface MemoryViewProps {
  /** Null before the first request. */
  readonly memory: MemoryMessage | null;
  readonly onRequest: () => void;
  readonly isLoading: boolean;
  readonly failure: string | null;
}

/** The holders of memory now; requested when it is opened, because the lookup costs the kernel some time. */
export function MemoryView({ memory, onRequest, isLoading, failure }: MemoryViewProps): JSX.Element {
  const held = memory ? memory.heldBytes.traceback + memory.heldBytes.outputs : 0;
  return (
    <details
      className="jp-TPULabMore"
      onToggle={event => {
        if (event.currentTarget.open) onRequest();
      }}
    >
      <summary>
        {trans.__('Memory by array')}
        {memory ? ` · ${sizeText(memory.totalBytes)}` : ''}
      </summary>
      {memory ? <HeldArrays arrays={memory.arrays} shown={12} /> : null}
      {held > 0 ? (
        <p className="jp-TPULab-quiet">
          {trans.__('The last traceback and Out[] hold %1 that nothing else does.', sizeText(held))}
        </p>
      ) : null}
      {failure === null ? null : (
        <p className="jp-TPULab-failure" role="alert">
          {failure}
        </p>
      )}
      <button type="button" className="jp-TPULab-option" disabled={isLoading} onClick={onRequest}>
        {isLoading ? trans.__('Looking…') : trans.__('Refresh')}
      </button>
    </details>
  );
}
