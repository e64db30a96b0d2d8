/** The step chart in React, with a line that says what is under the pointer. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, useEffect, useRef, useState } from 'react';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run-history.js';
import { SPANS } from '../events/step-ring.js';
import { countText, durationText } from '../text/duration.js';
import type { DrawLoop } from './draw-loop.js';
import { isEstimated, shownSpanMs, watchedShares } from './shown-split.js';
import { spanName } from './span-names.js';
import { StepChart } from './step-chart.js';
import type { StepSummary } from './summary.js';

export interface ChartViewProps {
  readonly kernel: KernelTelemetry;
  readonly run: Run;
  readonly summary: StepSummary;
  readonly window: number;
  readonly loop: DrawLoop;
  readonly paused: boolean;
  readonly trans: TranslationBundle;
}

export function ChartView({
  kernel,
  run,
  summary,
  window,
  loop,
  paused,
  trans
}: ChartViewProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => {
    if (!canvas.current || paused) {
      return;
    }
    const chart = new StepChart({ canvas: canvas.current, loop, onHover: setHovered });
    const onChange = (): void => chart.show(run.steps, window);
    onChange();
    // Straight from the model, because the chart moves more often than React draws.
    kernel.changed.connect(onChange);
    return () => {
      kernel.changed.disconnect(onChange);
      chart.dispose();
    };
  }, [kernel, run, run.steps, window, loop, paused]);
  return (
    <div className="jp-TPULabChart">
      <canvas
        ref={canvas}
        className="jp-TPULabChart-canvas"
        role="img"
        aria-label={chartLabel(summary, trans)}
      />
      <div className="jp-TPULabChart-readout" aria-hidden="true">
        {hovered !== null && hovered < run.steps.length ? (
          stepText(run, hovered, window, trans)
        ) : (
          <>
            <span>{trans._n('last step', 'last %1 steps', summary.count)}</span>
            {summary.estimatedSteps > 0 ? (
              <span>
                <span className="jp-TPULabChart-pale" /> {trans.__('not watched')}
              </span>
            ) : null}
            {summary.compiledSteps > 0 ? <span>{trans.__('▲ compiled')}</span> : null}
          </>
        )}
      </div>
    </div>
  );
}

function chartLabel(summary: StepSummary, trans: TranslationBundle): string {
  const { count, typicalMs, compiledSteps, estimatedSteps } = summary;
  const typical = durationText(typicalMs);
  return estimatedSteps > 0
    ? trans.__(
        'Times of the last %1 steps: typically %2, %4 of them not watched and estimated, %3 of them compiled',
        count,
        typical,
        compiledSteps,
        estimatedSteps
      )
    : trans.__(
        'Times of the last %1 steps: typically %2, %3 of them compiled',
        count,
        typical,
        compiledSteps
      );
}

function stepText(run: Run, position: number, window: number, trans: TranslationBundle): string {
  const { steps } = run;
  const shares = watchedShares(steps, window);
  const estimated = isEstimated(steps, position, shares);
  const parts = SPANS.map((span, at) => ({ span, ms: shownSpanMs(steps, position, at, shares) }))
    .filter(({ ms }) => ms > 0)
    .map(({ span, ms }) => `${spanName(span, trans)} ${estimated ? '≈ ' : ''}${durationText(ms)}`);
  const head = trans.__(
    'step %1: %2',
    countText(steps.index(position)),
    durationText(steps.wallMs(position))
  );
  return [head, ...(estimated ? [trans.__('not watched')] : []), ...parts].join(' · ');
}
