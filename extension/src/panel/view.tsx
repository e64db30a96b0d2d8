/** The side panel: devices, steps and compilations of the kernel that people look at. */
import type { JSX } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CodeLocation } from '@tpulab/protocol';
import { CompilationsView, totalText } from '../compilations/view.js';
import { summaryText } from '../devices/model.js';
import { DevicesView } from '../devices/view.js';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { DrawLoop } from '../steps/draw-loop.js';
import { summarize } from '../steps/summary.js';
import { runText, StepsView } from '../steps/view.js';
import { durationText } from '../text/duration.js';
import { Announcer } from './announcer.js';
import { Section } from './section.js';
import { type Message, type Remedy, situationOf } from './situation.js';
import type { PanelState } from './state.js';
import { useChanges, useSeconds } from './use-changes.js';

const DEVICES_EXAMPLE = 'import jax\njax.devices()';

export interface PanelViewProps {
  readonly state: PanelState;
  readonly loop: DrawLoop;
  readonly onRemedy: (remedy: Remedy) => void;
  /** Null where the code cannot be shown. */
  readonly onGoTo: (location: CodeLocation) => (() => void) | null;
  readonly trans: TranslationBundle;
}

export function PanelView(props: PanelViewProps): JSX.Element {
  const { state, onRemedy, trans } = props;
  const { current, stream, telemetry, paused } = state;
  useChanges(state, false, 0);
  useChanges(telemetry, paused);
  useSeconds(stream?.kind === 'waiting' && !paused);
  const situation = situationOf({ current, stream, telemetry, now: Date.now() }, trans);
  return (
    <div className="jp-TPULabPanel-content">
      {current.kind === 'none' ? null : (
        <p
          className="jp-TPULabPanel-followed"
          title={trans.__('The panel follows the notebook or console in front.')}
        >
          <span className="jp-TPULabPanel-document">{current.document}</span>
          {current.kind === 'no-kernel' ? null : (
            <span className="jp-TPULab-quiet">{current.kernelName}</span>
          )}
        </p>
      )}
      {situation.message ? (
        <MessageView message={situation.message} onRemedy={onRemedy} trans={trans} />
      ) : null}
      {situation.showTelemetry && telemetry ? (
        <Sections key={telemetry.kernelId} {...props} kernel={telemetry} />
      ) : null}
    </div>
  );
}

interface MessageViewProps {
  readonly message: Message;
  readonly onRemedy: (remedy: Remedy) => void;
  readonly trans: TranslationBundle;
}

function MessageView({ message: { text, remedy }, onRemedy, trans }: MessageViewProps): JSX.Element {
  return (
    <div className="jp-TPULabMessage">
      <p>{text}</p>
      {remedy ? (
        <button type="button" className="jp-TPULab-button" onClick={() => onRemedy(remedy)}>
          {remedy === 'reconnect' ? trans.__('Reconnect now') : trans.__('Choose a kernel…')}
        </button>
      ) : null}
    </div>
  );
}

function Sections({
  state,
  loop,
  kernel,
  onGoTo,
  trans
}: PanelViewProps & { kernel: KernelTelemetry }): JSX.Element {
  const { paused, settings } = state;
  const { compilations, devices, runs } = kernel;
  const compiling = compilations.running.length > 0;
  useSeconds(compiling && !paused);
  const devicesMeta = devices && !state.isOpen('devices') ? summaryText(devices, trans) : '';
  return (
    <>
      <Section
        title={trans.__('Devices')}
        meta={devicesMeta}
        open={state.isOpen('devices')}
        onToggle={() => state.toggle('devices')}
      >
        {devices ? <DevicesView devices={devices} trans={trans} /> : <NoDevices trans={trans} />}
      </Section>
      <Section
        title={trans.__('Steps')}
        meta={runText(runs.current, trans)}
        open={state.isOpen('steps')}
        onToggle={() => state.toggle('steps')}
      >
        <StepsView kernel={kernel} window={settings.stepsShown} loop={loop} paused={paused} trans={trans} />
      </Section>
      <Section
        title={trans.__('Compilations')}
        meta={totalText(compilations, trans)}
        open={state.isOpen('compilations')}
        onToggle={() => state.toggle('compilations')}
      >
        <CompilationsView
          log={compilations}
          version={compilations.version}
          now={compiling ? Date.now() + kernel.clockAheadMs : 0}
          onGoTo={onGoTo}
          trans={trans}
        />
      </Section>
      {kernel.missed > 0 ? (
        <p className="jp-TPULabPanel-missed">
          {trans.__(
            'Earlier telemetry is no longer held by the bridge; the figures begin later than the kernel.'
          )}
        </p>
      ) : null}
      <Announcer text={announcement(kernel, settings.stepsShown, trans)} />
    </>
  );
}

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
function announcement(kernel: KernelTelemetry, window: number, trans: TranslationBundle): string {
  const [compiling] = kernel.compilations.running;
  if (compiling) {
    return trans.__('Compiling %1.', compiling.function);
  }
  const run = kernel.runs.current;
  const summary = run ? summarize(run.steps, window) : null;
  return run && summary
    ? trans.__('%1: %2 per step.', runText(run, trans), durationText(summary.typicalMs))
    : '';
}
