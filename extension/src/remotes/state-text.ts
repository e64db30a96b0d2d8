/** What a remote's state is called, and the sentence that says what it means and what to do. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import { countdownText } from '../text/duration.js';
import { acceleratorName } from './names.js';

export interface IStateText {
  readonly label: string;
  readonly detail: string;
}

export function stateText(remote: Remote, now: number, trans: TranslationBundle): IStateText {
  switch (remote.state) {
    case 'connected':
      return { label: trans.__('connected'), detail: trans.__('Its kernels can be used.') };
    case 'connecting':
      return { label: trans.__('connecting…'), detail: currentStage(remote) };
    case 'setting-up':
      return { label: trans.__('setting up…'), detail: currentStage(remote) };
    case 'reconnecting':
      return {
        label:
          remote.nextAttemptAt === null
            ? trans.__('reconnecting…')
            : trans.__('reconnecting in %1', countdownText(Math.max(0, remote.nextAttemptAt - now))),
        detail: trans.__(
          'The connection was lost. Its kernels go on running; nothing that they print is lost.'
        )
      };
    case 'waiting':
      return { label: trans.__('needs an answer'), detail: trans.__('ssh asks something; answer it below.') };
    case 'failed':
      return {
        label: trans.__('could not be connected'),
        detail: remote.error?.message ?? trans.__('Look at the log for the reason.')
      };
    case 'preempted':
      return {
        label: trans.__('taken back'),
        detail: trans.__(
          'The cloud has taken this machine back. What its kernels printed is kept here. Create a machine again, then connect.'
        )
      };
    case 'disconnected':
      return { label: trans.__('not connected'), detail: '' };
  }
}

function currentStage({ stages }: Remote): string {
  const stage = stages.findLast(({ state }) => state === 'running');
  if (!stage) {
    return '';
  }
  return stage.detail === null ? stage.title : `${stage.title}: ${stage.detail}`;
}

/** Figures beside the name: `v5e-8 · 23 ms`. */
export function figuresText(remote: Remote, trans: TranslationBundle): string {
  const parts: string[] = [];
  const accelerator = acceleratorName(remote);
  if (accelerator !== null) {
    parts.push(accelerator);
  }
  if (remote.state === 'connected' && remote.roundTripMs !== null) {
    parts.push(trans.__('%1 ms', Math.max(1, Math.round(remote.roundTripMs))));
  }
  return parts.join(' · ');
}

/** Whether something is under way that can be cancelled. */
export function isUnderWay({ state }: Pick<Remote, 'state'>): boolean {
  return state === 'connecting' || state === 'setting-up' || state === 'waiting' || state === 'reconnecting';
}
