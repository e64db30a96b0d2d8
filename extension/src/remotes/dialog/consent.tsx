/** A step that costs money or binds the user: its terms, its figures, and a link to details. */
import type { JSX } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ConsentFigure, RemoteConsent } from '@tpulab/protocol';

export interface IConsentProps {
  readonly consent: RemoteConsent;
  readonly trans: TranslationBundle;
}

export function ConsentCard({ consent, trans }: IConsentProps): JSX.Element {
  const { title, terms, figures, source } = consent;
  return (
    <section className="jp-TPULabDialogCard jp-mod-ask" aria-label={title}>
      <h3>{title}</h3>
      {terms.map(term => (
        <p key={term}>{term}</p>
      ))}
      <dl className="jp-TPULabFigures">
        {figures.map(figure => (
          <div key={figure.name}>
            <dt className="jp-TPULabQuiet">{figure.label}</dt>
            <dd>{figureText(figure, trans)}</dd>
          </div>
        ))}
      </dl>
      {source === null ? null : (
        <a href={source} target="_blank" rel="noopener noreferrer">
          {trans.__('Read the terms')}
        </a>
      )}
    </section>
  );
}

/** An unknown figure is labelled as unknown. */
export function figureText({ value, unit }: ConsentFigure, trans: TranslationBundle): string {
  if (value === null) return trans.__('unknown');
  const text = String(Math.round(value * 100) / 100);
  return unit === '' ? text : `${text} ${unit}`;
}
