/** The timeline of a run's steps in React: it zooms and moves by wheel, drag, buttons and keys, and describes the step at the cursor. */
import { type JSX, type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { countText, durationText } from '@tpulab/protocol';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import { SPANS } from '../events/step-ring.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { isEstimated, shownSpanMs, watchedShares } from './shown-split.js';
import { spanName } from './span-names.js';
import { StepChart } from './step-chart.js';
import { marksOf, positionOf, type StepMark } from './step-marks.js';
import { behind, moved, type StepWindow, zoomed } from './step-window.js';
import type { StepSummary } from './summary.js';
import { trans } from '../text/trans.js';

interface ChartViewProps {
  readonly kernel: KernelTelemetry;
  readonly run: Run;
  readonly summary: StepSummary;
  readonly window: number;
  readonly loop: DrawLoop;
  readonly paused: boolean;
}

export function ChartView(props: ChartViewProps): JSX.Element {
  const { kernel, run, summary, loop, paused } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const chart = useRef<StepChart | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [view, setView] = useState<StepWindow>({ count: props.window, end: null });
  const latest = useRef(view);
  latest.current = view;
  useEffect(() => setView(before => ({ ...before, count: props.window })), [props.window]);
  // The run changes in place, so its marks are read at each drawing.
  const marks = marksOf(run);
  const placed = useRef<{ position: number; isCommand: boolean }[]>([]);
  placed.current = marks.flatMap(({ index, kind }) => {
    const position = positionOf(run.steps, index);
    return position === null ? [] : [{ position, isCommand: kind === 'command' }];
  });
  useEffect(() => {
    const element = canvas.current;
    if (!element || paused) {
      return;
    }
    const made = new StepChart({ canvas: element, loop, onHover: setHovered });
    chart.current = made;
    const onChange = (): void => {
      const { steps } = run;
      made.show(
        steps,
        latest.current.count,
        behind(latest.current, steps.added, steps.length),
        placed.current
      );
    };
    const onWheel = (event: WheelEvent): void => {
      // A wheel alone scrolls the panel, as everywhere.
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        setView(before => zoomed(before, event.deltaY > 0 ? 1.25 : 0.8, run.steps.length));
      }
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    onChange();
    // Directly from the model, because the chart moves more often than React draws.
    kernel.changed.connect(onChange);
    return () => {
      kernel.changed.disconnect(onChange);
      element.removeEventListener('wheel', onWheel);
      chart.current = null;
      made.dispose();
    };
  }, [kernel, run, run.steps, loop, paused]);
  useEffect(() => {
    const { steps } = run;
    chart.current?.show(steps, view.count, behind(view, steps.added, steps.length), placed.current);
  });
  const { length: held, added } = run.steps;
  const zoom = (factor: number): void => setView(before => zoomed(before, factor, held));
  const onKey = (event: KeyboardEvent): void => {
    const [first, end] = chart.current?.shown ?? [0, 0];
    const point = (at: number): void => {
      if (at < first || at >= end) {
        setView(before => moved(before, at < first ? at - first : at - end + 1, added, held));
      }
      const to = Math.min(held - 1, Math.max(0, at));
      setHovered(to);
      chart.current?.point(to);
    };
    const page = Math.max(1, Math.round((end - first) / 2));
    const actions: Record<string, () => void> = {
      ArrowLeft: () => point((hovered ?? end) - 1),
      ArrowRight: () => point((hovered ?? end - 2) + 1),
      PageUp: () => point((hovered ?? end) - page),
      PageDown: () => point((hovered ?? end) + page),
      Home: () => point(0),
      End: () => point(held - 1),
      '+': () => zoom(0.5),
      '-': () => zoom(2),
      Escape: () => {
        setHovered(null);
        chart.current?.point(null);
      }
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  };
  const label = chartLabel(summary);
  const readout = hovered !== null && hovered < held ? stepText(run, hovered, view.count, marks) : null;
  return (
    <div className="jp-TPULabChart">
      <div className="jp-TPULab-row">
        <span className="jp-TPULab-fitting">
          <strong>
            {view.end === null
              ? trans._n('Last step', 'Last %1 steps', Math.min(view.count, held))
              : trans.__('%1 earlier steps', Math.min(view.count, held))}
          </strong>{' '}
          <span className="jp-TPULab-quiet">{rangeText(run, view)}</span>
        </span>
        <span className="jp-TPULab-choice" role="group" aria-label={trans.__('Part of the timeline')}>
          <Tool
            text="◂"
            title={trans.__('Earlier steps')}
            onClick={() => setView(v => moved(v, -step(v), added, held))}
          />
          <Tool
            text="▸"
            title={trans.__('Later steps')}
            onClick={() => setView(v => moved(v, step(v), added, held))}
          />
          <Tool text="−" title={trans.__('Show more steps')} onClick={() => zoom(2)} />
          <Tool text="+" title={trans.__('Show fewer steps')} onClick={() => zoom(0.5)} />
          {view.end === null ? null : (
            <Tool
              text={trans.__('newest')}
              title={trans.__('Follow the newest step')}
              onClick={() => setView(v => ({ ...v, end: null }))}
            />
          )}
        </span>
      </div>
      <canvas
        ref={canvas}
        className="jp-TPULabChart-canvas"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, held - 1)}
        aria-valuenow={Math.min(hovered ?? held - 1, Math.max(0, held - 1))}
        aria-valuetext={readout ?? label}
        onKeyDown={onKey}
      />
      <div className="jp-TPULabChart-readout" aria-hidden="true">
        {readout ?? <Legend summary={summary} marks={marks} />}
      </div>
    </div>
  );
}

/** `8,167 to 8,214`. */
function rangeText({ steps }: Run, view: StepWindow): string {
  const last = steps.length - 1 - behind(view, steps.added, steps.length);
  const first = Math.max(0, last - view.count + 1);
  return last < first
    ? ''
    : trans.__('%1 to %2', countText(steps.index(first)), countText(steps.index(last)));
}

/** Half a screen. */
function step({ count }: StepWindow): number {
  return Math.max(1, Math.round(count / 2));
}

function Tool({
  text,
  title,
  onClick
}: {
  readonly text: string;
  readonly title: string;
  readonly onClick: () => void;
}): JSX.Element {
  return (
    <button type="button" className="jp-TPULab-option" title={title} aria-label={title} onClick={onClick}>
      {text}
    </button>
  );
}

function Legend({
  summary,
  marks
}: {
  readonly summary: StepSummary;
  readonly marks: readonly StepMark[];
}): JSX.Element {
  return (
    <>
      {summary.estimatedSteps > 0 ? (
        <span>
          <span className="jp-TPULabChart-pale" /> {trans.__('not watched')}
        </span>
      ) : null}
      {summary.compiledSteps > 0 ? <span>{trans.__('▲ compiled')}</span> : null}
      {marks.some(({ kind }) => kind !== 'command') ? (
        <span>{trans.__('■ checkpoint, evaluation')}</span>
      ) : null}
      {marks.some(({ kind }) => kind === 'command') ? <span>{trans.__('◆ changed by hand')}</span> : null}
    </>
  );
}

function chartLabel(summary: StepSummary): string {
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

function stepText(run: Run, position: number, window: number, marks: readonly StepMark[]): string {
  const { steps } = run;
  const shares = watchedShares(steps, window);
  const estimated = isEstimated(steps, position, shares);
  const parts = SPANS.map((span, at) => ({ span, ms: shownSpanMs(steps, position, at, shares) }))
    .filter(({ ms }) => ms > 0)
    .map(({ span, ms }) => `${spanName(span)} ${estimated ? '≈ ' : ''}${durationText(ms)}`);
  const index = steps.index(position);
  const head = trans.__('step %1: %2', countText(index), durationText(steps.wallMs(position)));
  const here = marks.filter(mark => mark.index === index).map(({ text }) => text);
  return [head, ...(estimated ? [trans.__('not watched')] : []), ...parts, ...here].join(' · ');
}
