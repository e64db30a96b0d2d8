/** `tpulab.TrainingControls`: the progress of a run, its metrics, buttons that steer it, and its hyperparameters. */
import { type JSX, useState } from 'react';
import { HeadView } from '../../runs/head-view.js';
import { LogView } from '../../runs/log-view.js';
import { metricNames, sourcesOf } from '../../runs/metric-data.js';
import { MetricsView } from '../../runs/metrics-view.js';
import { HypersView, loggedRun, NoRun } from '../../runs/view.js';
import { STEPS_SHOWN, widgetModule, type WidgetViewProps } from '../module.js';
import { trans } from '../../text/trans.js';

function TrainingControls({ feed, loop }: WidgetViewProps): JSX.Element {
  const [opened, setOpened] = useState<readonly string[]>([]);
  const { run, control } = feed;
  if (!run) {
    return feed.awaited === null ? (
      <NoRun />
    ) : (
      <>
        <p>
          <strong>{feed.awaited}</strong>
        </p>
        <p className="jp-TPULab-quiet">{trans.__('Waiting for the first step.')}</p>
      </>
    );
  }
  const toggle = (name: string): void =>
    setOpened(before => (before.includes(name) ? before.filter(other => other !== name) : [...before, name]));
  const names = metricNames(run.series.keys());
  return (
    <>
      <HeadView
        run={run}
        runs={[run]}
        onSelect={() => undefined}
        control={control}
        window={STEPS_SHOWN}
        opened={opened}
        onToggle={toggle}
      />
      {names.length > 1 || opened.length > 0 ? (
        <MetricsView
          sources={sourcesOf(run, [], [], [])}
          names={names}
          main={names[0]}
          opened={opened}
          onToggle={toggle}
          version={`${run.id} ${run.version}`}
          loop={loop}
        />
      ) : null}
      <HypersView run={run} control={control} />
      <LogView run={loggedRun(run)} />
    </>
  );
}

export default widgetModule(TrainingControls);
