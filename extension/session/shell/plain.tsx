/** The small parts of the shell: a page with only a short text, the logo, buttons. */
import type { ButtonHTMLAttributes, JSX, ReactNode } from 'react';
import { Icon, type IconName } from './icons.js';

export function Plain({ children }: { readonly children: ReactNode }): JSX.Element {
  return (
    <main className="tpl-Plain">
      <Brand />
      {children}
    </main>
  );
}

/** The TPULab logo. */
export function Brand(): JSX.Element {
  return (
    <span className="tpl-Brand" aria-hidden="true">
      <svg viewBox="0 0 24 24" width="16" height="16" fill="none" stroke="currentColor" strokeWidth="2">
        <rect x="6" y="6" width="12" height="12" rx="2" />
        <rect x="10" y="10" width="4" height="4" />
        <path d="M9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4" />
      </svg>
    </span>
  );
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement>;

export function Button({
  kind,
  className,
  ...props
}: ButtonProps & { readonly kind?: 'primary' }): JSX.Element {
  const classes = ['tpl-Button', kind && `jp-mod-${kind}`, className].filter(Boolean).join(' ');
  return <button type="button" className={classes} {...props} />;
}

/** @param label for screen readers */
export function IconButton({
  icon,
  label,
  ...props
}: ButtonProps & { readonly icon: IconName; readonly label: string }): JSX.Element {
  return (
    <button type="button" className="tpl-IconButton" aria-label={label} {...props}>
      <Icon name={icon} />
    </button>
  );
}
