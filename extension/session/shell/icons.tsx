/** Line icons of the shell. */
import type { JSX } from 'react';

const PATHS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  search: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM16.2 16.2 21 21',
  runAll: 'M4 6v12l8-6zM12 6v12l8-6z',
  stop: 'M7 7h10v10H7z',
  restart: 'M20 11a8 8 0 1 0-2.3 5.7M20 4v7h-7',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  down: 'm6 9 6 6 6-6',
  check: 'm5 12 5 5 9-10',
  close: 'M6 6l12 12M18 6 6 18',
  panel: 'M4 5h16v14H4zM14 5v14',
  pause: 'M9 6v12M15 6v12',
  resume: 'M8 5v14l11-7z',
  flag: 'M5 21V4h12l-2 4 2 4H5',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4',
  warning: 'M12 4 2.5 20h19zM12 10v4M12 17h.01',
  plus: 'M12 5v14M5 12h14',
  chip: 'M7 7h10v10H7zM10 2v5M14 2v5M10 17v5M14 17v5M2 10h5M2 14h5M17 10h5M17 14h5',
  file: 'M6 3h8l5 5v13H6zM14 3v5h5',
  folder: 'M3 6h6l2 3h10v10H3z',
  left: 'm14 6-6 6 6 6',
  link: 'M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1'
} as const;

export type IconName = keyof typeof PATHS;
const FILLED_ICONS: ReadonlySet<IconName> = new Set(['runAll', 'stop', 'resume']);

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg
      className="tpl-Icon"
      viewBox="0 0 24 24"
      width="16"
      height="16"
      aria-hidden="true"
      fill={FILLED_ICONS.has(name) ? 'currentColor' : 'none'}
      stroke="currentColor"
      strokeWidth={name === 'more' ? 3 : 2}
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
