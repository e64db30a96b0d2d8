/** The state of a run, and the buttons that are useful now. */
import type { ControlAction, ControlState } from '@tpulab/protocol';
import type { Run } from './run.js';
import { trans } from '../text/trans.js';

/** One word for the run: the controller's state where there is a controller. */
export function stateText(run: Run): string {
  if (run.state === 'interrupted') {
    return trans.__('kernel ended');
  }
  if (run.state === 'failed') {
    return trans.__('failed');
  }
  if (run.state === 'finished') {
    return run.control?.state === 'stopped' ? trans.__('stopped') : trans.__('finished');
  }
  switch (run.control?.state ?? 'running') {
    case 'idle':
    case 'starting':
      return trans.__('starting');
    case 'running':
      return trans.__('running');
    case 'pausing':
      return trans.__('pausing…');
    case 'paused':
      return trans.__('paused');
    case 'stopping':
      return trans.__('stopping…');
    case 'finished':
      return trans.__('finished');
    case 'stopped':
      return trans.__('stopped');
    case 'failed':
      return trans.__('failed');
  }
}

interface ControlButton {
  readonly action: ControlAction;
  /** Name of one of the run's own actions. */
  readonly name?: string;
  readonly enabled: boolean;
  /** The most likely choice. */
  readonly primary: boolean;
}

/** No step follows, unless the loop is started again. */
const FINAL_STATES: ReadonlySet<ControlState> = new Set(['stopping', 'stopped', 'finished', 'failed']);

/** The buttons in display order; none for a run that cannot be steered. */
export function buttonsOf(run: Run): ControlButton[] {
  const { control } = run;
  if (!control) {
    return [];
  }
  const continues = run.state === 'running' && !FINAL_STATES.has(control.state);
  const isPaused = control.state === 'paused' || control.state === 'pausing';
  const understood = (action: ControlAction): boolean => control.actions.includes(action);
  const first: ControlAction = isPaused ? 'resume' : 'pause';
  return [
    ...(understood(first) ? [{ action: first, enabled: continues, primary: true }] : []),
    ...(['stop', 'checkpoint', 'evaluate', 'sample'] as const)
      .filter(understood)
      .map(action => ({ action, enabled: continues, primary: false })),
    ...(control.own ?? []).map(name => ({
      action: 'call' as const,
      name,
      enabled: continues,
      primary: false
    }))
  ];
}

export function actionText(action: ControlAction): string {
  switch (action) {
    case 'pause':
      return trans.__('Pause');
    case 'resume':
      return trans.__('Resume');
    case 'stop':
      return trans.__('Stop after this step');
    case 'checkpoint':
      return trans.__('Checkpoint');
    case 'evaluate':
      return trans.__('Evaluate');
    case 'sample':
      return trans.__('Sample now');
    case 'call':
      return trans.__('Action');
    case 'set':
      return trans.__('Set');
    case 'branch':
      return trans.__('Branch');
    case 'free':
      return trans.__('Free memory');
    case 'memory':
      return trans.__('Memory by array');
    case 'profile':
      return trans.__('Trace');
  }
}
