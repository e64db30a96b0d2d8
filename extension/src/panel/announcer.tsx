/** Announces changes to screen readers, politely and no more often than users can listen. */
import { type JSX, useEffect, useRef, useState } from 'react';

export const ANNOUNCE_INTERVAL_MS = 10_000;

/** The newest text wins; a text superseded within the interval is not announced. */
export function Announcer({ text }: { readonly text: string }): JSX.Element {
  const [announced, setAnnounced] = useState('');
  const lastAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    if (text === announced) {
      return;
    }
    const waitMs = Math.max(0, lastAt.current + ANNOUNCE_INTERVAL_MS - Date.now());
    const timer = setTimeout(() => {
      lastAt.current = Date.now();
      setAnnounced(text);
    }, waitMs);
    return () => clearTimeout(timer);
  }, [text, announced]);
  return (
    <div className="jp-TPULab-unseen" role="status" aria-live="polite">
      {announced}
    </div>
  );
}
