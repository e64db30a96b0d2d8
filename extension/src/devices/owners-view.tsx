/** Who holds the chips, with what can be done about it. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, memo } from 'react';
import { type Holder, rangesText } from './owners.js';

export interface OwnersViewProps {
  readonly holders: readonly Holder[];
  /** Shows the document of a kernel. */
  readonly onShow: (document: string) => void;
  /** Asks whether to shut the kernel down, and does so. */
  readonly onRelease: (kernelId: string) => void;
  readonly trans: TranslationBundle;
}

export const OwnersView = memo(function OwnersView({
  holders,
  onShow,
  onRelease,
  trans
}: OwnersViewProps): JSX.Element | null {
  if (holders.length === 0) {
    return null;
  }
  return (
    <ul className="jp-TPULabOwners" aria-label={trans.__('Who holds the chips')}>
      {holders.map(({ pid, command, kernelId, document, chips }) => (
        <li key={pid} className="jp-TPULabOwners-item">
          <div className="jp-TPULab-row">
            <span>
              <strong>{document ?? command ?? trans.__('process %1', pid)}</strong>{' '}
              {trans._n('holds chip %2', 'holds chips %2', chips.length, rangesText(chips))}
            </span>
            <span className="jp-TPULab-number jp-TPULab-quiet">{trans.__('pid %1', pid)}</span>
          </div>
          {kernelId === null ? (
            <p className="jp-TPULab-quiet">
              {trans.__('It is no kernel of TPULab; end it where it was started to free the chips.')}
            </p>
          ) : (
            <div className="jp-TPULab-buttons">
              {document === null ? null : (
                <button type="button" className="jp-TPULab-button" onClick={() => onShow(document)}>
                  {trans.__('Show notebook')}
                </button>
              )}
              <button type="button" className="jp-TPULab-button" onClick={() => onRelease(kernelId)}>
                {trans.__('Release the chips…')}
              </button>
            </div>
          )}
        </li>
      ))}
    </ul>
  );
});
