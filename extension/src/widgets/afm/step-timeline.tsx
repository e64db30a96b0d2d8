/** `tpulab.StepTimeline`: the split of each step's time, and its limit. */
import type { JSX } from 'react';
import { stepTexts, StepsView } from '../../steps/view.js';
import { STEPS_SHOWN, widgetModule, type WidgetViewProps } from '../module.js';
import { trans } from '../../text/trans.js';

function StepTimeline({ model, feed, loop, paused }: WidgetViewProps): JSX.Element {
  const { run, kernel } = feed;
  const window = Number(model.get('window')) || STEPS_SHOWN;
  const name = run?.name ?? feed.awaited;
  return (
    <>
      <p className="jp-TPULab-row">
        <strong>{name ?? trans.__('No steps yet')}</strong>
        <span className="jp-TPULab-number jp-TPULab-quiet">{stepTexts(run, window).join(' · ')}</span>
      </p>
      <StepsView
        kernel={kernel}
        run={run}
        window={window}
        loop={loop}
        paused={paused}
        onGoTo={() => null}
        onFree={null}
        onTrace={null}
        isTracing={false}
        traceFailure={null}
        onExport={null}
        hidesProgress={false}
      />
    </>
  );
}

export default widgetModule(StepTimeline);
