/** The extension's panel beside the notebook; loaded when it is first opened. */
import { type ComponentType, type JSX, useEffect, useState } from 'react';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import { Icon } from './icons.js';
import { trans } from '../text.js';

export interface PanelSheetProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly onClose: () => void;
}

type Body = ComponentType<Pick<PanelSheetProps, 'page' | 'session'>>;

export function PanelSheet({ page, session, onClose }: PanelSheetProps): JSX.Element {
  const [Loaded, setLoaded] = useState<Body | null>(null);
  useEffect(() => {
    let isOver = false;
    void import('./panel-body.js').then(({ PanelBody }) => {
      if (!isOver) setLoaded(() => PanelBody);
    });
    return () => {
      isOver = true;
    };
  }, []);
  return (
    <aside className="tpl-PanelSheet" aria-label={trans.__('Run and devices')} data-tpl-region="panel">
      <header>
        <h2>{trans.__('Run and devices')}</h2>
        {page.access.isReadOnly ? <span className="tpl-Pill">{trans.__('View only')}</span> : null}
        <button
          type="button"
          className="tpl-IconButton"
          aria-label={trans.__('Close the panel')}
          onClick={onClose}
        >
          <Icon name="close" />
        </button>
      </header>
      {Loaded ? (
        <Loaded page={page} session={session} />
      ) : (
        <p className="jp-TPULab-quiet">{trans.__('Loading…')}</p>
      )}
    </aside>
  );
}
