/** Whether programs fit a chip: an icon and a word, never colour alone. */
import type { JSX, ReactNode } from 'react';
import type { Fit } from '@tpulab/protocol';
import { Icon, type IconName } from './icons.js';
import { trans } from '../../text/trans.js';

const ICONS: Readonly<Record<Fit, IconName>> = {
  fits: 'check',
  tight: 'warning',
  no: 'close',
  unknown: 'minus'
};

export function FitMark({ fit, children }: { readonly fit: Fit; readonly children: ReactNode }): JSX.Element {
  return (
    <span className={`jp-TPULabFit jp-mod-${fit}`}>
      <Icon name={ICONS[fit]} />
      {children}
    </span>
  );
}

export function fitText(fit: Fit): string {
  const texts: Record<Fit, string> = {
    fits: trans.__('fits'),
    tight: trans.__('tight'),
    no: trans.__('does not fit'),
    unknown: trans.__('unknown')
  };
  return texts[fit];
}
