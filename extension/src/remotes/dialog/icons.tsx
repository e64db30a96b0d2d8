/** Line icons of the dialog, in the colour of the surrounding text. */
import type { JSX } from 'react';

const PATHS = {
  search: 'M10.3 10.3 13.5 13.5M11.3 7a4.3 4.3 0 1 1-8.6 0 4.3 4.3 0 0 1 8.6 0z',
  close: 'm4 4 8 8M12 4l-8 8',
  check: 'm3.5 8.4 3 3 6-6.8',
  circle: 'M12.4 8a4.4 4.4 0 1 1-8.8 0 4.4 4.4 0 0 1 8.8 0z',
  warning: 'M8 2.6 14.2 13.2H1.8zM8 6.4v3.4M8 11.6v.2',
  plus: 'M8 3.2v9.6M3.2 8h9.6',
  left: 'M9.7 4.5 6.2 8l3.5 3.5',
  right: 'M6.3 4.5 9.8 8l-3.5 3.5',
  down: 'M4.5 6.3 8 9.8l3.5-3.5',
  minus: 'M4.5 8h7',
  retry: 'M13 8a5 5 0 1 1-1.6-3.7L13 5.8M13 2.6v3.2H9.8',
  sync: 'M2.8 7.2A5.3 5.3 0 0 1 12 4.6l1.2 1.3M13.2 2.9v3h-3M13.2 8.8A5.3 5.3 0 0 1 4 11.4l-1.2-1.3M2.8 13.1v-3h3',
  copy: 'M7 5.6h5.1c.8 0 1.4.6 1.4 1.4v5.1c0 .8-.6 1.4-1.4 1.4H7c-.8 0-1.4-.6-1.4-1.4V7c0-.8.6-1.4 1.4-1.4zM10.4 3.4V3a.8.8 0 0 0-.8-.8H3a.8.8 0 0 0-.8.8v6.6c0 .4.4.8.8.8h.4',
  lock: 'M4.8 7h6.4c.7 0 1.3.6 1.3 1.3v3.9c0 .7-.6 1.3-1.3 1.3H4.8c-.7 0-1.3-.6-1.3-1.3V8.3C3.5 7.6 4.1 7 4.8 7zM5.6 7V5a2.4 2.4 0 0 1 4.8 0v2',
  chip: 'M5.4 4h5.2c.8 0 1.4.6 1.4 1.4v5.2c0 .8-.6 1.4-1.4 1.4H5.4c-.8 0-1.4-.6-1.4-1.4V5.4C4 4.6 4.6 4 5.4 4zM6.2 1.8v2.2M9.8 1.8v2.2M6.2 12v2.2M9.8 12v2.2M1.8 6.2H4M1.8 9.8H4M12 6.2h2.2M12 9.8h2.2',
  cloud: 'M4.6 12.5a2.9 2.9 0 0 1-.5-5.75 4 4 0 0 1 7.75.05 2.85 2.85 0 0 1-.35 5.7z',
  terminal:
    'M3.3 3h9.4c.8 0 1.5.7 1.5 1.5v7c0 .8-.7 1.5-1.5 1.5H3.3c-.8 0-1.5-.7-1.5-1.5v-7C1.8 3.7 2.5 3 3.3 3zM4.6 6.4l2 1.7-2 1.7M8.4 10.3h3'
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg className="jp-TPULabIcon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
