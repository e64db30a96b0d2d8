/** Small icons beside the text of buttons; the text has their meaning. */
import type { JSX } from 'react';

const PATHS = {
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  resume: 'M5 3.5v9l7.5-4.5z',
  stop: 'M4.5 4.5h7v7h-7z',
  checkpoint: 'M4 14V2.5M4 3h8l-2 3 2 3H4',
  sample: 'M2.5 3.5h11v9h-11zM2.5 11l3.5-3.5 3 3 2-2 2.5 2.5',
  evaluate: 'M2.5 8.5l3.5 3.5 7.5-8',
  back: 'M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M3 6.5l3-3M3 6.5l3 3',
  line: 'M13 3.5v4a2 2 0 0 1-2 2H3.5M3.5 9.5l3-3M3.5 9.5l3 3',
  fold: 'M6 4l4 4-4 4'
} as const;

type GlyphName = keyof typeof PATHS;

export function isGlyph(name: string): name is GlyphName {
  return Object.hasOwn(PATHS, name);
}

export function Glyph({ name }: { readonly name: GlyphName }): JSX.Element {
  return (
    <svg className={`jp-TPULabGlyph jp-mod-${name}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
