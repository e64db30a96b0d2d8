/** A button of the dialogs and views. */
import type { ButtonHTMLAttributes, JSX } from 'react';

export interface IButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  /** Beside `jp-TPULabButton`: `jp-mod-primary`. */
  readonly look?: 'primary' | 'bare' | 'danger';
}

export function Button({ look, className, ...props }: IButtonProps): JSX.Element {
  const classes = ['jp-TPULabButton', look && `jp-mod-${look}`, className].filter(Boolean).join(' ');
  return <button type="button" className={classes} {...props} />;
}
