/** `tpulab.TrainingControls`: how far a run is, its loss, buttons that steer it, and its hyperparameters. */
import type { Hyperparameter } from '@tpulab/protocol';
import type { MetricSeries } from '../../events/metric-series.js';
import type { Run } from '../../events/run.js';
import { actionText, buttonsOf, stateText } from '../../events/run-state.js';
import { commandText } from '../../steps/step-marks.js';
import { countText } from '../../text/duration.js';
import { metricText } from '../../text/value.js';
import type { RenderProps, WidgetModule } from '../afm.js';
import { calmly, make, setText } from '../dom.js';
import { openFeed } from '../feed.js';
import { type HyperInput, hyperInput } from '../hyper-input.js';
import { dress } from '../style.js';
import { english } from '../words.js';

const [WIDTH, HEIGHT] = [300, 72] as const;
const SVG = 'http://www.w3.org/2000/svg';

function render({ model, el }: RenderProps): () => void {
  dress(el);
  const feed = openFeed(model);
  const head = make('strong');
  const state = make('span', { class: 'tpulab-num' });
  const progress = make('progress', { 'aria-label': english.__('Steps done') });
  const step = make('span', { class: 'tpulab-num' });
  const plot = document.createElementNS(SVG, 'svg');
  const line = document.createElementNS(SVG, 'path');
  plot.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
  plot.setAttribute('preserveAspectRatio', 'none');
  plot.setAttribute('role', 'img');
  line.setAttribute('class', 'tpulab-line');
  plot.append(line);
  const buttons = make('div', {
    class: 'tpulab-buttons',
    role: 'group',
    'aria-label': english.__('Run controls')
  });
  const failure = make('p', { class: 'tpulab-fail', role: 'alert' });
  const hypers = make('div');
  const last = make('p', { class: 'tpulab-num tpulab-quiet' });
  el.append(
    make('div', { class: 'tpulab-row' }, head, state),
    ...[progress, step, plot, buttons, failure, hypers, last]
  );
  let buttonsShown = '';
  let hypersShown = '';
  let inputs = new Map<string, HyperInput>();

  const drawButtons = (run: Run): void => {
    const wanted = buttonsOf(run).map(button => ({
      ...button,
      busy: feed.control.pendingOf(button.action) !== null
    }));
    const shape = JSON.stringify(wanted);
    if (shape === buttonsShown) {
      return;
    }
    buttonsShown = shape;
    const focused = document.activeElement?.getAttribute('data-action');
    buttons.replaceChildren(
      ...wanted.map(({ action, enabled, busy }) => {
        const button = make(
          'button',
          { type: 'button', 'data-action': action, disabled: !enabled || busy, 'aria-busy': String(busy) },
          `${actionText(action, english)}${busy ? '…' : ''}`
        );
        button.addEventListener('click', () => void feed.control.request({ action, run: run.id }));
        return button;
      })
    );
    buttons.querySelector<HTMLElement>(`[data-action="${focused ?? ''}"]`)?.focus();
  };
  const drawHypers = (run: Run): void => {
    const parameters = run.control?.hyperparameters ?? [];
    const shape = `${run.id} ${parameters.map(({ name, kind }) => `${name} ${kind}`).join()}`;
    if (shape !== hypersShown) {
      hypersShown = shape;
      inputs = new Map(
        parameters.map((parameter: Hyperparameter) => [
          parameter.name,
          hyperInput(
            parameter,
            value => void feed.control.request({ action: 'set', run: run.id, name: parameter.name, value })
          )
        ])
      );
      hypers.replaceChildren(...[...inputs.values()].map(({ element }) => element));
    }
    for (const parameter of parameters) {
      inputs
        .get(parameter.name)
        ?.update(
          parameter,
          feed.control.pendingOf('set', parameter.name)?.value ?? null,
          feed.control.failed.find(({ name }) => name === parameter.name)?.text ?? null,
          run.state !== 'running'
        );
    }
  };
  const draw = (): void => {
    const { run } = feed;
    if (!run) {
      setText(head, feed.awaited ?? 'No run yet');
      setText(
        step,
        feed.awaited === null
          ? 'A run of tpulab.run(…) appears here when its first step begins.'
          : 'No step of it is known here yet.'
      );
      return;
    }
    const [name, series] = [...run.series].find(([one]) => /loss/i.test(one)) ?? [...run.series][0] ?? [];
    setText(head, name && series ? `${name} ${metricText(series.last)}` : run.name);
    setText(state, `${run.name} · ${stateText(run, english)}`);
    const newestStep = run.steps.length > 0 ? run.steps.index(run.steps.length - 1) + 1 : 0;
    // The pace is told once a second, the steps more often.
    const done = Math.max(run.pace?.step ?? 0, newestStep);
    progress.hidden = run.totalSteps === null;
    progress.max = run.totalSteps ?? 1;
    progress.value = Math.min(done, run.totalSteps ?? 1);
    setText(
      step,
      run.totalSteps === null
        ? `step ${countText(done)}`
        : `step ${countText(done)} of ${countText(run.totalSteps)}`
    );
    line.setAttribute('d', series ? pathOf(series) : '');
    plot.setAttribute(
      'aria-label',
      name && series
        ? english.__('%1 by step, now %2', name, metricText(series.last))
        : english.__('No metric yet')
    );
    drawButtons(run);
    drawHypers(run);
    const failed = feed.control.failed.filter(({ action }) => action !== 'set');
    setText(failure, failed.map(({ action, text }) => `${actionText(action, english)}: ${text}`).join(' '));
    const newest = run.commands.at(-1);
    setText(
      last,
      newest
        ? `${newest.step === null ? '' : `${countText(newest.step)} `}${commandText(newest, english)} · ${newest.phase}`
        : ''
    );
  };
  const calm = calmly(el, draw);
  feed.onChange(calm.ask);
  draw();
  return () => {
    calm.dispose();
    feed.dispose();
  };
}

/** A line through the points, over the whole width. */
function pathOf({ steps, values }: MetricSeries): string {
  const [first = 0, final = 0] = [steps[0], steps[steps.length - 1]];
  const finite = values.filter(Number.isFinite);
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity);
  const high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  const across = final > first ? WIDTH / (final - first) : 0;
  const up = high > low ? (HEIGHT - 4) / (high - low) : 0;
  let path = '';
  let pen = 'M';
  values.forEach((value, at) => {
    if (!Number.isFinite(value)) {
      pen = 'M';
      return;
    }
    const x = ((steps[at] ?? 0) - first) * across;
    path += `${pen}${x.toFixed(1)} ${(HEIGHT - 2 - (value - low) * up).toFixed(1)}`;
    pen = 'L';
  });
  return path;
}

export default { render } satisfies WidgetModule;
