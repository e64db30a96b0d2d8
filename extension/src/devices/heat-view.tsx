/** The grid of many devices in React: choice of figure, grid, and a readout for pointer or keyboard. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { DrawLoop } from '../ui/draw-loop.js';
import { HeatGrid, type HeatFigure, heatOf } from './heat-grid.js';
import { tileText } from './tile-text.js';
import type { DeviceTile } from './tiles.js';

export interface HeatViewProps {
  readonly tiles: readonly DeviceTile[];
  readonly loop: DrawLoop;
  readonly trans: TranslationBundle;
}

const FIGURES: readonly HeatFigure[] = ['duty', 'tensorCore', 'memory', 'bandwidth'];

export function HeatView({ tiles, loop, trans }: HeatViewProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const grid = useRef<HeatGrid | null>(null);
  const known = FIGURES.filter(figure => tiles.some(tile => heatOf(tile, figure) !== null));
  const [wanted, setWanted] = useState<HeatFigure>('duty');
  const figure = known.includes(wanted) ? wanted : (known[0] ?? 'duty');
  const [marked, setMarked] = useState<number | null>(null);
  useEffect(() => {
    if (!canvas.current) {
      return;
    }
    const made = new HeatGrid({ canvas: canvas.current, loop, onHover: setMarked });
    grid.current = made;
    return () => {
      grid.current = null;
      made.dispose();
    };
  }, [loop]);
  useEffect(() => grid.current?.show(tiles, figure, marked));
  const tile = marked === null ? undefined : tiles[marked];
  const summary = heatSummary(tiles, figure, trans);
  const onKey = (event: KeyboardEvent): void => {
    const columns = grid.current?.shape.columns ?? 1;
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
      Home: -tiles.length,
      End: tiles.length
    };
    const step = steps[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setMarked(at => Math.min(tiles.length - 1, Math.max(0, (at ?? (step > 0 ? -1 : 0)) + step)));
    } else if (event.key === 'Escape') {
      setMarked(null);
    }
  };
  return (
    <div className="jp-TPULabHeat">
      {known.length > 1 ? (
        <div className="jp-TPULab-choice" role="group" aria-label={trans.__('What the cells show')}>
          {known.map(one => (
            <button
              key={one}
              type="button"
              className="jp-TPULab-option"
              aria-pressed={one === figure}
              onClick={() => setWanted(one)}
            >
              {figureName(one, trans)}
            </button>
          ))}
        </div>
      ) : null}
      <canvas
        ref={canvas}
        className="jp-TPULabHeat-canvas"
        role="slider"
        tabIndex={0}
        aria-label={trans.__('Devices, one cell each')}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, tiles.length - 1)}
        aria-valuenow={marked ?? 0}
        aria-valuetext={tile ? tileText(tile, trans) : summary}
        onKeyDown={onKey}
      />
      <div className="jp-TPULabHeat-scale" aria-hidden="true">
        <span>0%</span>
        <span className="jp-TPULabHeat-ramp" />
        <span>100%</span>
        <span className="jp-TPULabHeat-unknown" />
        <span>{trans.__('unknown')}</span>
      </div>
      <p className="jp-TPULabHeat-readout" aria-hidden="true">
        {tile ? tileText(tile, trans) : summary}
      </p>
    </div>
  );
}

export function figureName(figure: HeatFigure, trans: TranslationBundle): string {
  switch (figure) {
    case 'duty':
      return trans.__('duty cycle');
    case 'tensorCore':
      return trans.__('TensorCore');
    case 'memory':
      return trans.__('HBM');
    case 'bandwidth':
      return trans.__('HBM bandwidth');
  }
}

/** `duty cycle 79 to 91%, mean 87%; lowest: device 7`. */
function heatSummary(tiles: readonly DeviceTile[], figure: HeatFigure, trans: TranslationBundle): string {
  const known = tiles.flatMap(tile => {
    const heat = heatOf(tile, figure);
    return heat === null ? [] : [{ id: tile.id, heat }];
  });
  const [first] = known;
  if (!first) {
    return trans.__('The utilisation of these devices is unknown.');
  }
  let [low, high, sum] = [first, first, 0];
  for (const one of known) {
    low = one.heat < low.heat ? one : low;
    high = one.heat > high.heat ? one : high;
    sum += one.heat;
  }
  return trans.__(
    '%1 from %2% (device %3) to %4% (device %5), mean %6%',
    figureName(figure, trans),
    Math.round(low.heat * 100),
    low.id,
    Math.round(high.heat * 100),
    high.id,
    Math.round((sum / known.length) * 100)
  );
}
