/** Commands, headings and files by their names: Ctrl+K. */
import { type JSX, type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react';
import { CommandRegistry } from '@lumino/commands';
import { NOTEBOOK_COMMANDS } from '../notebook/commands.js';
import { goToHeading, headingsOf } from '../notebook/headings.js';
import type { OpenSession } from '../page/open-session.js';
import { PALETTE } from '../page/page-commands.js';
import type { SessionPage } from '../page/session-page.js';
import { Icon } from './icons.js';
import { trans } from '../text.js';

interface PaletteProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
  readonly onClose: () => void;
}

interface Entry {
  readonly group: string;
  readonly label: string;
  readonly keys: string;
  readonly run: () => void;
}

const MAX_SHOWN = 40;

export function Palette({ page, session, onClose }: PaletteProps): JSX.Element {
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const listId = useId();
  const list = useRef<HTMLUListElement>(null);
  const all = useMemo(() => entriesOf(page, session), [page, session]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all
    .filter(({ group, label }) => words.every(word => `${group} ${label}`.toLowerCase().includes(word)))
    .slice(0, MAX_SHOWN);
  const at = Math.min(chosen, found.length - 1);
  // Read before the field takes the focus, which happens when it is drawn.
  const [before] = useState(() => document.activeElement as HTMLElement | null);
  useEffect(() => () => before?.focus(), [before]);
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const run = (entry: Entry | undefined): void => {
    onClose();
    // Run after the focus has returned.
    if (entry) setTimeout(entry.run);
  };
  const onKey = (event: KeyboardEvent): void => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: found.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      setChosen((to + found.length) % Math.max(1, found.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      run(found[at]);
    } else if (event.key === 'Escape') {
      onClose();
    }
    event.stopPropagation();
  };
  return (
    <div
      className="tpl-Palette-back"
      onPointerDown={event => event.target === event.currentTarget && onClose()}
    >
      <div
        className="tpl-Palette tpl-Popover"
        role="dialog"
        aria-label={trans.__('Commands')}
        aria-modal="true"
      >
        <div className="tpl-Palette-input">
          <Icon name="search" />
          <input
            autoFocus
            role="combobox"
            aria-expanded="true"
            aria-controls={listId}
            aria-activedescendant={found.length > 0 ? `${listId}-${at}` : undefined}
            aria-label={trans.__('Type a command or a heading')}
            placeholder={trans.__('Type a command or a heading')}
            value={text}
            onChange={event => {
              setText(event.currentTarget.value);
              setChosen(0);
            }}
            onKeyDown={onKey}
          />
        </div>
        <ul id={listId} ref={list} role="listbox" aria-label={trans.__('Commands')}>
          {found.map((entry, index) => (
            <li
              key={`${entry.group} ${entry.label} ${index}`}
              id={`${listId}-${index}`}
              role="option"
              aria-selected={index === at}
              onPointerMove={() => setChosen(index)}
              onClick={() => run(entry)}
            >
              <span className="tpl-Palette-group">{entry.group}</span>
              <span className="tpl-Palette-label">{entry.label}</span>
              {entry.keys === '' ? null : <kbd>{entry.keys}</kbd>}
            </li>
          ))}
          {found.length === 0 ? <li className="tpl-Palette-none">{trans.__('No results')}</li> : null}
        </ul>
      </div>
    </div>
  );
}

function entriesOf({ commands }: SessionPage, { panel, timing }: OpenSession): Entry[] {
  const command = (group: string, id: string): Entry[] => {
    if (!commands.hasCommand(id) || !commands.isEnabled(id) || !commands.isVisible(id)) return [];
    const keys = commands.keyBindings.find(binding => binding.command === id)?.keys ?? [];
    const shown = keys.map(each => CommandRegistry.formatKeystroke(each)).join(', ');
    return [{ group, label: commands.label(id), keys: shown, run: () => void commands.execute(id) }];
  };
  return [
    ...NOTEBOOK_COMMANDS.flatMap(({ id, group }) => (group === undefined ? [] : command(group, id))),
    ...PALETTE.flatMap(([group, ...ids]) => ids.flatMap(id => command(group, id))),
    ...['tpulab:find', 'tpulab:show-panel', 'tpulab:show-contents', 'tpulab:share'].flatMap(id =>
      command(trans.__('Page'), id)
    ),
    ...headingsOf(panel, timing).map(({ text, cell }) => ({
      group: trans.__('Go to'),
      label: text,
      keys: '',
      run: () => void goToHeading(panel, cell)
    }))
  ];
}
