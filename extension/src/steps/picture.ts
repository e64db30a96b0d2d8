/** The steps of a run as a self-contained SVG: for a notebook that is read without TPULab. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { durationText } from '@tpulab/protocol';
import type { Run } from '../events/run.js';
import { SPANS, type StepRing } from '../events/step-ring.js';
import { scaleOf } from './chart-geometry.js';
import { shownSpanMs, watchedShares } from './shown-split.js';
import { spanName } from './span-names.js';
import type { StepSummary } from './summary.js';

const WIDTH = 640;
const HEIGHT = 220;
const MARGIN = 14;
/** Fixed, because the picture is shown without a theme; they are legible on white and on black. */
const COLOURS: Readonly<Record<(typeof SPANS)[number], string>> = {
  input: '#d98018',
  host: '#8a95a5',
  compile: '#8e5bd6',
  device: '#1b8f61',
  gap: '#b6bdc8'
};
const TEXT = '#5f6875';

export interface PictureOptions {
  readonly run: Run;
  readonly summary: StepSummary;
  readonly window: number;
  /** The sentence about the limit of the step. */
  readonly headline: string;
  readonly trans: TranslationBundle;
}

export function stepsPicture({ run, summary, window, headline, trans }: PictureOptions): string {
  const area = { left: MARGIN, top: 96, width: WIDTH - 2 * MARGIN - 60, height: HEIGHT - 96 - MARGIN };
  const title = trans.__('%1: %2 per step', run.name, durationText(summary.typicalMs));
  const parts = [
    text(MARGIN, 22, title, 'font-weight="600" font-size="15"'),
    ...splitBar(summary),
    ...legend(summary, trans),
    text(MARGIN, 88, shortened(headline, 100), 'font-size="11"'),
    ...bars(run.steps, window, area)
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img"`,
    ` font-family="system-ui, sans-serif" font-size="12" fill="${TEXT}"><title>${escaped(title)}</title>`,
    ...parts,
    '</svg>'
  ].join('');
}

function splitBar({ spans, meanMs }: StepSummary): string[] {
  let left = MARGIN;
  return spans.map(({ span, meanMs: ms }) => {
    const width = meanMs > 0 ? (ms / meanMs) * (WIDTH - 2 * MARGIN) : 0;
    const part = rect(left, 32, width, 16, COLOURS[span]);
    left += width;
    return part;
  });
}

function legend({ spans }: StepSummary, trans: TranslationBundle): string[] {
  let left = MARGIN;
  return spans.flatMap(({ span, percent, meanMs }) => {
    const words = `${spanName(span, trans)} ${percent}% · ${durationText(meanMs)}`;
    const at = left;
    left += 122;
    return [rect(at, 57, 8, 8, COLOURS[span]), text(at + 12, 65, words, 'font-size="10.5"')];
  });
}

function bars(
  steps: StepRing,
  window: number,
  area: { left: number; top: number; width: number; height: number }
): string[] {
  const scale = scaleOf(steps, window, area);
  const shares = watchedShares(steps, window);
  const pixels = area.height / scale.topMs;
  const bottom = area.top + area.height;
  const parts: string[] = [];
  for (let at = 0; at < scale.count; at += 1) {
    let below = 0;
    SPANS.forEach((span, n) => {
      const ms = shownSpanMs(steps, scale.first + at, n, shares);
      const from = Math.min(below * pixels, area.height);
      below += ms;
      const to = Math.min(below * pixels, area.height);
      if (to - from > 0.1) {
        parts.push(rect(area.left + at * scale.pitch, bottom - to, scale.barWidth, to - from, COLOURS[span]));
      }
    });
  }
  const right = area.left + area.width + 6;
  return [
    ...parts,
    text(right, area.top + 4, durationText(scale.topMs), 'font-size="10"'),
    text(right, bottom, '0', 'font-size="10"')
  ];
}

function rect(x: number, y: number, width: number, height: number, fill: string): string {
  return `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${fill}"/>`;
}

function text(x: number, y: number, words: string, attributes: string): string {
  return `<text x="${short(x)}" y="${short(y)}" ${attributes}>${escaped(words)}</text>`;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function shortened(words: string, most: number): string {
  const plain = words.replaceAll('`', '');
  return plain.length <= most ? plain : `${plain.slice(0, most - 1)}…`;
}

function escaped(words: string): string {
  return words.replace(
    /[&<>"]/g,
    sign => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign] ?? sign
  );
}
