/** A button with a menu below it: arrows, Home, End, Escape; a click elsewhere closes it. */
import { type JSX, type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { Glyph } from './glyph.js';

interface MenuItem {
  readonly label: string;
  readonly disabled?: boolean;
  readonly checked?: boolean;
  readonly onClick: () => void;
}

interface MenuProps {
  readonly label: string;
  readonly button: ReactNode;
  readonly buttonClass: string;
  /** Null: a line between two parts. */
  readonly items: readonly (MenuItem | null)[];
}

export function Menu({ label, button, buttonClass, items }: MenuProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return;
    list.current?.querySelector<HTMLElement>('[role^=menuitem]:not(:disabled)')?.focus();
    // The menu of a list's last row may be below the page.
    list.current?.scrollIntoView({ block: 'nearest' });
    const onDown = (event: PointerEvent): void => {
      if (!list.current?.contains(event.target as Node) && !opener.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    document.addEventListener('pointerdown', onDown, true);
    return () => document.removeEventListener('pointerdown', onDown, true);
  }, [isOpen]);
  const close = (): void => {
    setOpen(false);
    opener.current?.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    const all = [...(list.current?.querySelectorAll<HTMLElement>('[role^=menuitem]:not(:disabled)') ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      all[(to + all.length) % all.length]?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      event.stopPropagation();
      close();
    }
  };
  return (
    <div className="jp-TPULabMenu">
      <button
        ref={opener}
        type="button"
        className={buttonClass}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {button}
      </button>
      {isOpen ? (
        <div ref={list} className="jp-TPULabMenu-list" role="menu" aria-label={label} onKeyDown={onKey}>
          {items.map((item, at) =>
            item === null ? (
              <div key={at} role="separator" className="jp-TPULabMenu-line" />
            ) : (
              <button
                key={item.label}
                type="button"
                role={item.checked === undefined ? 'menuitem' : 'menuitemradio'}
                aria-checked={item.checked}
                disabled={item.disabled}
                className="jp-TPULabMenu-item"
                onClick={() => {
                  close();
                  item.onClick();
                }}
              >
                <span className="jp-TPULabMenu-check">
                  {item.checked === true ? <Glyph name="evaluate" /> : null}
                </span>
                {item.label}
              </button>
            )
          )}
        </div>
      ) : null}
    </div>
  );
}
