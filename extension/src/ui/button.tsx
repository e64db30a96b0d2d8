/** A button of the dialogs and views. */
import type { ButtonHTMLAttributes, JSX } from 'react';

interface IButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** Beside `jp-TPULabButton`: `jp-mod-primary`. */
  readonly kind?: 'primary' | 'bare' | 'danger';
}

export function Button({ kind, className, ...props }: IButtonProps): JSX.Element {
  const classes = ['jp-TPULabButton', kind && `jp-mod-${kind}`, className].filter(Boolean).join(' ');
  return <button type="button" className={classes} {...props} />;
}
