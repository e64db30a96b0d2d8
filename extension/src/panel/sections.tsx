/**
 * The sections of the panel: the run and the split of its time first, then its controls, its compilations, and the machine.
 * Side by side where there is room.
 */
import { type CodeLocation, countText, durationText, storedRunKey } from '@tpulab/protocol';
import { type JSX, lazy, memo, Suspense, useEffect } from 'react';
import { CompilationsView, totalText } from '../compilations/view.js';
import { devicesText } from '../devices/now-view.js';
import { DevicesView } from '../devices/view.js';
import { unavailableReason } from '../events/capabilities.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import { stateText } from '../events/run-state.js';
import type { StoredRun, StoredRunList } from '../runs/stored-runs.js';
import { HeadView } from '../runs/head-view.js';
import { StoredRunsView, otherRuns } from '../runs/stored-runs-view.js';
import { BranchView } from '../runs/branch-view.js';
import { linesOf, LogView } from '../runs/log-view.js';
import { metricNames, sourcesOf } from '../runs/metric-data.js';
import { MediaView } from '../runs/media-view.js';
import { MetricsView } from '../runs/metrics-view.js';
import { addPast, lacksHistory } from '../runs/past.js';
import { ConfigView, HypersView, loggedRun, NoRun } from '../runs/view.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { summarize } from '../steps/summary.js';
import { stepTexts, StepsView } from '../steps/view.js';
import type { PanelActions } from './actions.js';
import { Announcer } from './announcer.js';
import { Section } from './section.js';
import type { Remedy } from './situation.js';
import type { PanelState, SectionId } from './state.js';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import { trans } from '../text/trans.js';

const PreflightView = lazy(() => import('../preflight/view.js'));

/** For sections that are consulted, not monitored. */
const CALM_INTERVAL_MS = 1_000;

const DEVICES_EXAMPLE = 'import jax\njax.devices()';

export interface PanelViewProps {
  readonly state: PanelState;
  readonly loop: DrawLoop;
  readonly onRemedy: (remedy: Remedy) => void;
  /** Null where the code cannot be shown. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly actions: PanelActions;
}

type SectionsProps = PanelViewProps & { readonly kernel: KernelTelemetry | null };

export function Sections(props: SectionsProps): JSX.Element {
  const { state, kernel } = props;
  const shown = (section: SectionId): boolean => state.settings.sections.includes(section);
  useSeconds((kernel?.compilations.running.length ?? 0) > 0 && !state.paused);
  return (
    <div className="jp-TPULabPanel-columns">
      {kernel ? (
        <>
          <div className="jp-TPULabPanel-column">
            {shown('run') ? <HeadSection {...props} kernel={kernel} /> : null}
            {shown('steps') ? <StepsSection {...props} kernel={kernel} /> : null}
          </div>
          <div className="jp-TPULabPanel-column">
            {shown('run') ? <RunSections {...props} kernel={kernel} /> : null}
            {shown('compilations') ? <CompilationsSection {...props} kernel={kernel} /> : null}
          </div>
        </>
      ) : null}
      <div className="jp-TPULabPanel-column">
        {shown('devices') ? <DevicesSection {...props} /> : null}
        {shown('preflight') ? <PreflightSection {...props} /> : null}
        {kernel && shown('run') ? <LogSections {...props} kernel={kernel} /> : null}
      </div>
      {kernel ? (
        <>
          {kernel.missed > 0 ? (
            <p className="jp-TPULabPanel-missed">
              {trans.__('Early steps were discarded; their chart does not start at step 0.')}
            </p>
          ) : null}
          <Announcer text={announcement(kernel, state)} />
        </>
      ) : null}
    </div>
  );
}

/** Redrawn with new samples of the machine, not with each step. */
const DevicesSection = memo(function DevicesSection({
  state,
  loop,
  kernel,
  actions
}: SectionsProps): JSX.Element {
  useChanges(state, false, 0);
  const { machine, machineSource, settings, paused } = state;
  const isOpen = state.isOpen('devices');
  const isWatching = !paused && isOpen;
  useChanges(machine, !isWatching);
  useChanges(kernel, !isWatching, CALM_INTERVAL_MS);
  useEffect(() => {
    const watch = isWatching ? machineSource?.watch() : undefined;
    return () => watch?.dispose();
  }, [machineSource, isWatching]);
  const devices = kernel?.devices ?? null;
  const control = kernel && actions.controlOf(kernel);
  useChanges(control, !isWatching, 0);
  return (
    <Section
      title={trans.__('Devices')}
      meta={devicesText(devices, machine)}
      open={isOpen}
      onToggle={() => state.toggle('devices')}
    >
      {machine || devices ? (
        <DevicesView
          devices={devices}
          machine={machine}
          source={machineSource}
          range={settings.history === 'off' ? 'minutes' : settings.history}
          showHistory={settings.history !== 'off'}
          loop={loop}
          paused={!isWatching}
          documentOf={kernelId => actions.documentOf(kernelId)}
          onShow={path => actions.showDocument(path)}
          onRelease={kernelId => actions.release(kernelId, machineSource)}
          memory={kernel?.memory ?? null}
          onRequestMemory={control && (() => void control.request({ action: 'memory', run: null }))}
          isLoadingMemory={control !== null && control.pendingOf('memory') !== null}
          memoryFailure={control?.failed.find(({ action }) => action === 'memory')?.text ?? null}
          onRemoveLock={() => machineSource && actions.removeLock(machineSource)}
        />
      ) : (
        <NoDevices />
      )}
    </Section>
  );
});

/** About the notebook's file, so it needs no kernel. Nothing is requested while it is folded. */
function PreflightSection({ state, actions, onGoTo }: SectionsProps): JSX.Element | null {
  const preflight = actions.preflight();
  if (!preflight) {
    return null;
  }
  return (
    <Section
      title={trans.__('Pre-flight')}
      meta={trans.__('does it fit?')}
      open={state.isOpen('preflight')}
      onToggle={() => state.toggle('preflight')}
    >
      <Suspense fallback={<p className="jp-TPULab-quiet">{trans.__('Loading…')}</p>}>
        <PreflightView preflight={preflight} onGoTo={onGoTo} />
      </Suspense>
    </Section>
  );
}

type KernelSectionProps = PanelViewProps & { readonly kernel: KernelTelemetry };

function StepsSection({ state, loop, kernel, onGoTo, actions }: KernelSectionProps): JSX.Element {
  const control = actions.controlOf(kernel);
  useChanges(control, state.paused, 0);
  return (
    <Section
      title={trans.__('Where the time goes')}
      meta={stepTexts(state.run, state.settings.stepsShown)}
      open={state.isOpen('steps')}
      onToggle={() => state.toggle('steps')}
    >
      <StepsView
        kernel={kernel}
        run={state.run}
        window={state.settings.stepsShown}
        loop={loop}
        paused={state.paused}
        onGoTo={onGoTo}
        onFree={control && (() => void control.request({ action: 'free', run: null }))}
        onTrace={
          control && (seconds => void control.request({ action: 'profile', run: null, value: seconds }))
        }
        isTracing={control !== null && control.pendingOf('profile') !== null}
        traceFailure={control?.failed.find(({ action }) => action === 'profile')?.text ?? null}
        onExport={run => actions.exportSteps(run)}
        hidesProgress={state.settings.sections.includes('run')}
      />
    </Section>
  );
}

function CompilationsSection({ state, kernel, onGoTo }: KernelSectionProps): JSX.Element {
  const { compilations } = kernel;
  return (
    <Section
      title={trans.__('Compilations')}
      meta={totalText(compilations)}
      open={state.isOpen('compilations')}
      onToggle={() => state.toggle('compilations')}
    >
      <CompilationsView
        log={compilations}
        version={compilations.version}
        unknownReason={unavailableReason(kernel.agent, 'compilations')}
        now={compilations.running.length > 0 ? Date.now() + kernel.clockAheadMs : 0}
        onGoTo={onGoTo}
      />
    </Section>
  );
}

/** The present state of the run, above all else. It is always visible: no other section shows whether the run continues. */
function HeadSection({ state, kernel, actions }: KernelSectionProps): JSX.Element {
  const control = actions.controlOf(kernel);
  useChanges(control, state.paused, 0);
  const { run } = state;
  return (
    <section className="jp-TPULabSection jp-mod-head" aria-label={trans.__('Run')}>
      {run ? (
        <HeadView
          key={run.id}
          run={run}
          runs={kernel.runs.runs}
          onSelect={chosen => state.chooseRun(chosen)}
          control={control}
          opened={state.metrics}
          onToggle={name => state.toggleMetric(name)}
          window={state.settings.stepsShown}
        />
      ) : (
        <NoRun />
      )}
    </section>
  );
}

/** Curves of a whole run change more slowly than its steps: half the rate is sufficient, and halves the drawing. */
const RunSections = memo(function RunSections(props: KernelSectionProps): JSX.Element | null {
  const { state, loop, kernel, actions } = props;
  useChanges(state, false, 0);
  const { run, paused } = state;
  const stored = actions.storedRuns();
  const control = actions.controlOf(kernel);
  useChanges(kernel, paused, CALM_INTERVAL_MS);
  useChanges(stored, paused, 0);
  useChanges(control, paused, 0);
  useHistoryBefore(kernel, run, stored);
  if (!run) {
    return null;
  }
  const names = metricNames(run.series.keys());
  const steered = run.control?.hyperparameters ?? [];
  return (
    <>
      {names.length > 1 || state.metrics.length + state.compared.length > 0 ? (
        <Section
          title={trans.__('Metrics')}
          meta={trans._n('%2 step', '%2 steps', run.steps.added, countText(run.steps.added))}
          open={state.isOpen('metrics')}
          onToggle={() => state.toggle('metrics')}
        >
          <MetricsView
            sources={sourcesOf(run, kernel.runs.runs, stored?.runs ?? NO_RUNS, state.compared)}
            names={names}
            main={names[0]}
            opened={state.metrics}
            onToggle={name => state.toggleMetric(name)}
            version={`${run.id} ${run.version}`}
            loop={loop}
          />
        </Section>
      ) : null}
      {stored && run.media.length > 0 ? (
        <Section
          title={trans.__('Logged')}
          meta={trans._n('%1 picture, sound or text', '%1 pictures, sounds and texts', run.media.length)}
          open={state.isOpen('media')}
          onToggle={() => state.toggle('media')}
        >
          <MediaView
            key={run.id}
            media={run.media}
            onLoad={id => stored.medium(storedRunKey(kernel.kernelId, run.id), id)}
          />
        </Section>
      ) : null}
      {steered.length > 0 ? (
        <Section
          title={trans.__('Hyperparameters')}
          meta={run.state === 'running' && control ? trans.__('apply from the next step') : ''}
          open={state.isOpen('hyperparameters')}
          onToggle={() => state.toggle('hyperparameters')}
        >
          <HypersView run={run} control={control} />
        </Section>
      ) : null}
    </>
  );
});

/** A page opened late requests the earlier part of a run from the bridge once. */
function useHistoryBefore(kernel: KernelTelemetry, run: Run | null, stored: StoredRunList | null): void {
  const key = stored?.runs.find(
    ({ summary }) => summary.kernelId === kernel.kernelId && summary.run === run?.id
  )?.key;
  useEffect(() => {
    if (!run || !stored || key === undefined || !lacksHistory(run)) {
      return;
    }
    void stored.open(key).then(() => {
      const body = stored.runs.find(one => one.key === key)?.body;
      if (body && lacksHistory(run)) {
        addPast(run, body);
        kernel.noteChange();
      }
    });
  }, [kernel, run, stored, key]);
}

/** The requests to the run, how it was started, and other runs: consulted, not monitored, so folded at first. */
const LogSections = memo(function LogSections(props: KernelSectionProps): JSX.Element {
  const { state, kernel, actions } = props;
  useChanges(state, false, 0);
  const { run, paused } = state;
  const stored = actions.storedRuns();
  const control = actions.controlOf(kernel);
  useChanges(kernel, paused, CALM_INTERVAL_MS);
  useChanges(stored, paused, 0);
  useEffect(() => {
    const watch = paused ? undefined : stored?.poll();
    return () => watch?.dispose();
  }, [stored, paused]);
  const log = run ? loggedRun(run) : null;
  const lines = log ? linesOf(log) : [];
  const others = { kernel, run, stored: stored?.runs ?? NO_RUNS };
  const count = otherRuns(others).length;
  return (
    <>
      {run && log && lines.length + Object.keys(run.control?.config ?? {}).length > 0 ? (
        <Section
          title={trans.__('Log')}
          meta={lines[0] ? `${lines[0].step ?? '–'} · ${lines[0].text}` : ''}
          open={state.isOpen('log')}
          onToggle={() => state.toggle('log')}
        >
          <LogView run={log} />
          {control ? (
            <BranchView
              key={run.id}
              run={run}
              hyperparameters={run.control?.hyperparameters ?? []}
              onBranch={async request => {
                const answer = await control.request({ action: 'branch', run: run.id, ...request });
                return answer?.reason ?? control.failed.find(({ action }) => action === 'branch')?.text ?? '';
              }}
            />
          ) : null}
          <ConfigView run={run} />
        </Section>
      ) : null}
      {count > 0 ? (
        <Section
          title={trans.__('Other runs')}
          meta={String(count)}
          open={state.isOpen('others')}
          onToggle={() => state.toggle('others')}
        >
          <StoredRunsView
            {...others}
            onOpenStored={one => void stored?.open(one.key)}
            compared={state.compared}
            onCompare={keys => state.compare(keys)}
          />
        </Section>
      ) : null}
    </>
  );
});

const NO_RUNS: readonly StoredRun[] = [];

/** An ordinary state: a kernel that has not used a device, or a machine without one. */
function NoDevices(): JSX.Element {
  return (
    <div className="jp-TPULabEmpty">
      <p>{trans.__('No device yet. Devices appear when a cell uses JAX:')}</p>
      <pre className="jp-TPULabEmpty-code">{DEVICES_EXAMPLE}</pre>
    </div>
  );
}

/** The state in one sentence, for screen readers. */
function announcement(kernel: KernelTelemetry, state: PanelState): string {
  const [compiling] = kernel.compilations.running;
  if (compiling) {
    return trans.__('Compiling %1.', compiling.function);
  }
  const { run } = state;
  const summary = run ? summarize(run.steps, state.settings.stepsShown) : null;
  return run && summary
    ? trans.__('%1 · %2: %3 per step.', run.name, stateText(run), durationText(summary.typicalMs))
    : '';
}
