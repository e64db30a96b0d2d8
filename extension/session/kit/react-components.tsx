/** Plain elements that replace the Jupyter web components used by a notebook. The styles match their classes. */
import { forwardRef, type HTMLAttributes, type InputHTMLAttributes, type ReactNode } from 'react';

type ButtonProps = HTMLAttributes<HTMLButtonElement> & {
  readonly appearance?: string;
  readonly disabled?: boolean;
  readonly minimal?: boolean;
  readonly children?: ReactNode;
};

export const Button = forwardRef<HTMLButtonElement, ButtonProps>(function Button(
  { appearance, minimal: _minimal, className = '', ...rest },
  ref
) {
  return (
    <button
      ref={ref}
      type="button"
      className={`jp-PlainButton jp-mod-${appearance ?? 'neutral'} ${className}`}
      {...rest}
    />
  );
});

export const Search = forwardRef<HTMLInputElement, InputHTMLAttributes<HTMLInputElement>>(function Search(
  { children: _children, ...rest },
  ref
) {
  return <input ref={ref} type="search" {...rest} />;
});

interface ItemProps extends HTMLAttributes<HTMLDivElement> {
  readonly children?: ReactNode;
}

export function TreeView(props: ItemProps) {
  return <div role="tree" {...props} />;
}

export function TreeItem(props: ItemProps) {
  return <div role="treeitem" {...props} />;
}
