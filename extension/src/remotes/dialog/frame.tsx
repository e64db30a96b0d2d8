/** One screen of the dialog: a heading, a part that scrolls, and a footer that is always in view. */
import { type JSX, type ReactNode, useEffect, useRef } from 'react';
import { Icon } from './icons.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

export const TITLE_ID = 'jp-TPULabDialog-title';
/** An element with this attribute gets the focus when its screen is shown; otherwise the scrolling part. */
export const FIRST = { 'data-tpulab-first': '' } as const;

interface IFrameProps {
  /** A different value means another screen, which takes the focus. */
  readonly screen: string;
  readonly title: string;
  /** Below the title; it does not scroll. */
  readonly head?: ReactNode;
  /** Above the footer; it does not scroll either. */
  readonly drawer?: ReactNode;
  /** At the left of the footer. */
  readonly aside?: ReactNode;
  readonly buttons: ReactNode;
  /** The lists extend to the edges. */
  readonly isFlush?: boolean;
  readonly children: ReactNode;
  readonly onClose: () => void;
}

export function Frame(props: IFrameProps): JSX.Element {
  const { screen, title, head, drawer, aside, buttons, isFlush = false, children, onClose } = props;
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const first = frame.current?.querySelector<HTMLElement>('[data-tpulab-first]');
    (first ?? frame.current?.querySelector<HTMLElement>('.jp-TPULabDialog-scroll'))?.focus();
  }, [screen]);
  return (
    <div ref={frame} className="jp-TPULabDialog-frame jp-TPULabSurface">
      <div className="jp-TPULabDialog-head">
        <div className="jp-TPULabDialog-titleRow">
          <h2 id={TITLE_ID}>{title}</h2>
          <Button kind="bare" aria-label={trans.__('Close')} onClick={onClose}>
            <Icon name="close" />
          </Button>
        </div>
        {head}
      </div>
      <div
        className={`jp-TPULabDialog-scroll ${isFlush ? 'jp-mod-flush' : ''}`}
        tabIndex={0}
        role="group"
        aria-labelledby={TITLE_ID}
      >
        {children}
      </div>
      <div>
        {drawer}
        <div className="jp-TPULabDialog-foot">
          <div className="jp-TPULabDialog-aside">{aside}</div>
          <div className="jp-TPULabDialog-buttons">{buttons}</div>
        </div>
      </div>
    </div>
  );
}
