/** The sections of the panel: devices, steps, compilations, and the run. Beside each other where there is room. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CodeLocation } from '@tpulab/protocol';
import { type JSX, memo, useEffect } from 'react';
import { CompilationsView, totalText } from '../compilations/view.js';
import { summaryText } from '../devices/model.js';
import { DevicesView } from '../devices/view.js';
import { whyUnknown } from '../events/capabilities.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { KeptRun } from '../runs/kept-runs.js';
import { RunView } from '../runs/view.js';
import type { DrawLoop } from '../ui/draw-loop.js';
import { summarize } from '../steps/summary.js';
import { runText, StepsView } from '../steps/view.js';
import { durationText } from '../text/duration.js';
import type { PanelActions } from './actions.js';
import { Announcer } from './announcer.js';
import { Section } from './section.js';
import type { Remedy } from './situation.js';
import type { PanelState, SectionId } from './state.js';
import { useChanges, useSeconds } from '../ui/use-changes.js';

/** For what is looked at, not watched. */
const CALM_INTERVAL_MS = 1_000;

const DEVICES_EXAMPLE = 'import jax\njax.devices()';

export interface PanelViewProps {
  readonly state: PanelState;
  readonly loop: DrawLoop;
  readonly onRemedy: (remedy: Remedy) => void;
  /** Null where the code cannot be shown. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly actions: PanelActions;
  readonly trans: TranslationBundle;
}

type SectionsProps = PanelViewProps & { readonly kernel: KernelTelemetry | null };

export function Sections(props: SectionsProps): JSX.Element {
  const { state, kernel, trans } = props;
  const shown = (section: SectionId): boolean => state.settings.sections.includes(section);
  useSeconds((kernel?.compilations.running.length ?? 0) > 0 && !state.paused);
  return (
    <div className="jp-TPULabPanel-columns">
      <div className="jp-TPULabPanel-column">{shown('devices') ? <DevicesSection {...props} /> : null}</div>
      {kernel ? (
        <>
          <div className="jp-TPULabPanel-column">
            {shown('steps') ? <StepsSection {...props} kernel={kernel} /> : null}
            {shown('compilations') ? <CompilationsSection {...props} kernel={kernel} /> : null}
          </div>
          <div className="jp-TPULabPanel-column">
            {shown('run') ? <RunSection {...props} kernel={kernel} /> : null}
          </div>
          {kernel.missed > 0 ? (
            <p className="jp-TPULabPanel-missed">
              {trans.__(
                'Earlier telemetry is no longer held by the bridge; the figures begin later than the kernel.'
              )}
            </p>
          ) : null}
          <Announcer text={announcement(kernel, state, trans)} />
        </>
      ) : null}
    </div>
  );
}

/** Follows the machine's own pace, which is not that of the steps: it is not drawn again because they are. */
const DevicesSection = memo(function DevicesSection({
  state,
  loop,
  kernel,
  actions,
  trans
}: SectionsProps): JSX.Element {
  useChanges(state, false, 0);
  const { machine, machineSource, settings, paused } = state;
  const isOpen = state.isOpen('devices');
  const isLooking = !paused && isOpen;
  useChanges(machine, !isLooking);
  useChanges(kernel, !isLooking, CALM_INTERVAL_MS);
  useEffect(() => {
    const look = isLooking ? machineSource?.look() : undefined;
    return () => look?.dispose();
  }, [machineSource, isLooking]);
  const devices = kernel?.devices ?? null;
  const accelerator = machine?.page?.accelerator.type ?? '';
  return (
    <Section
      title={trans.__('Devices')}
      meta={accelerator || (devices && !isOpen ? summaryText(devices, trans) : '')}
      open={isOpen}
      onToggle={() => state.toggle('devices')}
    >
      {machine || devices ? (
        <DevicesView
          devices={devices}
          machine={machine}
          source={machineSource}
          density={settings.density}
          range={settings.history === 'off' ? 'minutes' : settings.history}
          showHistory={settings.history !== 'off'}
          loop={loop}
          paused={!isLooking}
          documentOf={kernelId => actions.documentOf(kernelId)}
          onShow={path => actions.showDocument(path)}
          onRelease={kernelId => actions.release(kernelId, machineSource)}
          onRemoveLock={() => machineSource && actions.removeLock(machineSource)}
          trans={trans}
        />
      ) : (
        <NoDevices trans={trans} />
      )}
    </Section>
  );
});

type KernelSectionProps = PanelViewProps & { readonly kernel: KernelTelemetry };

function StepsSection({ state, loop, kernel, onGoTo, actions, trans }: KernelSectionProps): JSX.Element {
  const control = actions.controlOf(kernel);
  return (
    <Section
      title={trans.__('Steps')}
      meta={runText(state.run, trans)}
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
        onExport={(...what) => actions.exportSteps(...what)}
        canInsert={actions.canInsert()}
        isCountedElsewhere={state.settings.sections.includes('run') && state.isOpen('run')}
        trans={trans}
      />
    </Section>
  );
}

function CompilationsSection({ state, kernel, onGoTo, trans }: KernelSectionProps): JSX.Element {
  const { compilations } = kernel;
  return (
    <Section
      title={trans.__('Compilations')}
      meta={totalText(compilations, trans)}
      open={state.isOpen('compilations')}
      onToggle={() => state.toggle('compilations')}
    >
      <CompilationsView
        log={compilations}
        version={compilations.version}
        whyUnknown={whyUnknown(kernel.agent, 'compilations')}
        now={compilations.running.length > 0 ? Date.now() + kernel.clockAheadMs : 0}
        onGoTo={onGoTo}
        trans={trans}
      />
    </Section>
  );
}

/** Curves of a whole run do not change as fast as its steps: half as often is as good, and half the drawing. */
const RunSection = memo(function RunSection({
  state,
  loop,
  kernel,
  actions,
  trans
}: KernelSectionProps): JSX.Element {
  useChanges(state, false, 0);
  const { run, paused } = state;
  const kept = actions.keptRuns();
  const isLooking = !paused && state.isOpen('run');
  useChanges(kernel, !isLooking, CALM_INTERVAL_MS);
  useChanges(kept, !isLooking, 0);
  useEffect(() => {
    const look = isLooking ? kept?.look() : undefined;
    return () => look?.dispose();
  }, [kept, isLooking]);
  return (
    <Section
      title={trans.__('Run')}
      meta={run?.name ?? ''}
      open={state.isOpen('run')}
      onToggle={() => state.toggle('run')}
    >
      <RunView
        kernel={kernel}
        run={run}
        onSelect={chosen => state.chooseRun(chosen)}
        control={actions.controlOf(kernel)}
        kept={kept?.runs ?? NONE_KEPT}
        onOpenKept={one => void kept?.open(one.key)}
        window={state.settings.stepsShown}
        loop={loop}
        paused={!isLooking}
        trans={trans}
      />
    </Section>
  );
});

const NONE_KEPT: readonly KeptRun[] = [];

/** An ordinary state: a kernel that has not used a device, or a machine without one. */
function NoDevices({ trans }: { readonly trans: TranslationBundle }): JSX.Element {
  return (
    <div className="jp-TPULabEmpty">
      <p>{trans.__('No device yet. Devices appear when a cell uses JAX:')}</p>
      <pre className="jp-TPULabEmpty-code">{DEVICES_EXAMPLE}</pre>
    </div>
  );
}

/** The state in one sentence, for people who hear it. */
function announcement(kernel: KernelTelemetry, state: PanelState, trans: TranslationBundle): string {
  const [compiling] = kernel.compilations.running;
  if (compiling) {
    return trans.__('Compiling %1.', compiling.function);
  }
  const { run } = state;
  const summary = run ? summarize(run.steps, state.settings.stepsShown) : null;
  return run && summary
    ? trans.__('%1: %2 per step.', runText(run, trans), durationText(summary.typicalMs))
    : '';
}
