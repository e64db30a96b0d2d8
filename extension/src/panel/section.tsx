/** A part of the panel that folds: a heading with a button, and the content that it controls. */
import { type JSX, type ReactNode, useId } from 'react';

interface SectionProps {
  readonly title: string;
  /** A few words at the right of the heading, visible when folded too; of several, as many as fit. */
  readonly meta: string | readonly string[];
  readonly open: boolean;
  readonly onToggle: () => void;
  readonly children: ReactNode;
}

export function Section({ title, meta, open, onToggle, children }: SectionProps): JSX.Element {
  const bodyId = useId();
  const titleId = useId();
  return (
    <section className="jp-TPULabSection" aria-labelledby={titleId}>
      <h2 className="jp-TPULabSection-heading">
        <button
          type="button"
          className="jp-TPULabSection-button"
          aria-expanded={open}
          aria-controls={bodyId}
          onClick={onToggle}
        >
          <svg className="jp-TPULabSection-caret" viewBox="0 0 16 16" aria-hidden="true">
            <path d="M5 6l3 3.5L11 6" />
          </svg>
          <span id={titleId}>{title}</span> <Meta pieces={[meta].flat().filter(piece => piece !== '')} />
        </button>
      </h2>
      <div id={bodyId} className="jp-TPULabSection-body" hidden={!open}>
        {open ? children : null}
      </div>
    </section>
  );
}

function Meta({ pieces }: { readonly pieces: readonly string[] }): JSX.Element | null {
  return pieces.length === 0 ? null : (
    <span className="jp-TPULab-fitting jp-TPULabSection-meta">
      {pieces.map((piece, at) => (
        <span key={at}>
          {at > 0 ? ' · ' : ''}
          {piece}
        </span>
      ))}
    </span>
  );
}
