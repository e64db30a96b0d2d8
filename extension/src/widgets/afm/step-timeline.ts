/** `tpulab.StepTimeline`: where the time of each step goes, and what limits it. */
import { SPANS } from '../../events/step-ring.js';
import { adviceFor } from '../../steps/advice.js';
import { DrawLoop } from '../../ui/draw-loop.js';
import { paceTexts } from '../../steps/pace.js';
import { StepChart } from '../../steps/step-chart.js';
import { marksOf, positionOf } from '../../steps/step-marks.js';
import { type StepSummary, summarize } from '../../steps/summary.js';
import { countText, durationText } from '../../text/duration.js';
import type { RenderProps, WidgetModule } from '../afm.js';
import { calmly, make, setText } from '../dom.js';
import { openFeed } from '../feed.js';
import { dress } from '../style.js';
import { english } from '../words.js';

const DEFAULT_WINDOW = 64;

function render({ model, el }: RenderProps): () => void {
  dress(el);
  const feed = openFeed(model);
  const loop = new DrawLoop(window);
  const window_ = Number(model.get('window')) || DEFAULT_WINDOW;
  const time = make('strong', { class: 'tpulab-num' });
  const meta = make('span', { class: 'tpulab-num tpulab-quiet' });
  const split = make('div', { class: 'tpulab-split', role: 'img' });
  const parts = SPANS.map(span => make('span', { style: `background:var(--jp-tpulab-${span})` }));
  const legend = make('ul', { class: 'tpulab-legend' });
  const words = SPANS.map(span => {
    const text = make('span', { class: 'tpulab-num' });
    const key = make('span', { class: 'tpulab-key', style: `background:var(--jp-tpulab-${span})` });
    legend.append(make('li', {}, key, `${span} `, text));
    return text;
  });
  const say = make('p', { class: 'tpulab-say' });
  const canvas = make('canvas', { role: 'img', 'aria-label': english.__('Times of the newest steps') });
  const under = make('p', { class: 'tpulab-num tpulab-quiet' });
  split.append(...parts);
  el.append(make('div', { class: 'tpulab-row' }, time, meta), split, legend, say, canvas, under);
  let hovered: number | null = null;
  const chart = new StepChart({
    canvas,
    loop,
    onHover: position => {
      hovered = position;
      draw();
    }
  });
  const draw = (): void => {
    const { run } = feed;
    const summary = run ? summarize(run.steps, window_) : null;
    if (!run || !summary) {
      setText(time, 'No steps yet');
      setText(meta, run?.name ?? feed.awaited ?? '');
      setText(say, 'Wrap the loop of a training: for batch in run.steps(loader)');
      return;
    }
    const advice = adviceFor(summary, english, null, run.pace?.mfu?.value ?? null);
    setText(time, `${durationText(summary.typicalMs)} per step`);
    const figures = run.pace ? paceTexts(run.pace, english) : [];
    setText(meta, [run.name, ...figures].join(' · '));
    summary.spans.forEach(({ meanMs, percent }, at) => {
      const part = parts[at];
      const word = words[at];
      if (part && word) {
        part.style.width = `${summary.meanMs > 0 ? (meanMs / summary.meanMs) * 100 : 0}%`;
        setText(word, `${percent} % · ${durationText(meanMs)}`);
      }
    });
    split.setAttribute('aria-label', splitLabel(summary));
    setText(say, advice.text.replaceAll('`', ''));
    say.classList.toggle('tpulab-act', advice.act);
    canvas.setAttribute('aria-label', `Times of the last ${summary.count} steps`);
    const marks = marksOf(run, english).flatMap(({ index, kind }) => {
      const position = positionOf(run.steps, index);
      return position === null ? [] : [{ position, isCommand: kind === 'command' }];
    });
    chart.show(run.steps, window_, 0, marks);
    setText(
      under,
      hovered !== null && hovered < run.steps.length
        ? `step ${countText(run.steps.index(hovered))}: ${durationText(run.steps.wallMs(hovered))}`
        : `last ${summary.count} steps${run.totalSteps === null ? '' : `, ${countText(summary.lastIndex + 1)} of ${countText(run.totalSteps)}`}`
    );
  };
  const calm = calmly(el, draw);
  feed.onChange(calm.ask);
  draw();
  return () => {
    calm.dispose();
    chart.dispose();
    loop.dispose();
    feed.dispose();
  };
}

function splitLabel({ spans }: StepSummary): string {
  return `Where the time went: ${spans.map(({ span, percent }) => `${span} ${percent} %`).join(', ')}`;
}

export default { render } satisfies WidgetModule;
