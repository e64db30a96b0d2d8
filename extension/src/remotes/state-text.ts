/** The name of a remote's state, and the sentence with its meaning and remedy. */
import { countdownText, type Remote, type RemoteState, secondsText } from '@tpulab/protocol';
import { acceleratorName } from '../backends/remote-names.js';
import { trans } from '../text/trans.js';

interface IStateText {
  readonly label: string;
  readonly detail: string;
}

/** The marker of a state: `ask` needs an answer, `off` is idle. */
export type Tone = 'ok' | 'busy' | 'ask' | 'error' | 'off';

export function toneOf(state: RemoteState): Tone {
  switch (state) {
    case 'connected':
      return 'ok';
    case 'connecting':
    case 'setting-up':
    case 'reconnecting':
    case 'queued':
      return 'busy';
    case 'waiting':
      return 'ask';
    case 'failed':
    case 'preempted':
      return 'error';
    case 'disconnected':
      return 'off';
  }
}

export function stateText(remote: Remote, now: number): IStateText {
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
        detail: trans.__('The connection was lost. Its kernels keep running, and their output is kept.')
      };
    case 'queued':
      return { label: trans.__('waiting for the cloud'), detail: queueSentence(remote, now) };
    case 'waiting':
      return { label: trans.__('needs an answer'), detail: trans.__('ssh has a question.') };
    case 'failed':
      return {
        label: trans.__('failed'),
        detail: remote.error?.message ?? trans.__('See the log for the reason.')
      };
    case 'preempted':
      return {
        label: trans.__('preempted'),
        detail: trans.__(
          'The cloud has preempted this machine. The output of its kernels is saved on this computer. Recreate the machine, then connect.'
        )
      };
    case 'disconnected':
      return { label: trans.__('not connected'), detail: '' };
  }
}

function queueSentence({ name, queue }: Remote, now: number): string {
  const continues = trans.__('It is connected as soon as it is ready.');
  if (!queue) return continues;
  const { state, since } = queue;
  const words =
    since === null
      ? trans.__('Google Cloud reports %1 for %2.', state, name)
      : trans.__('Google Cloud reports %1 for %2, %3 so far.', state, name, secondsText(now - since));
  return `${words} ${continues}`;
}

function currentStage({ stages }: Remote): string {
  const stage = stages.findLast(({ state }) => state === 'running');
  if (!stage) return '';
  return stage.detail === null ? stage.title : `${stage.title}: ${stage.detail}`;
}

/** Figures beside the name: `v5e-8 · 23 ms`. */
export function figuresText(remote: Remote): string {
  const parts: string[] = [];
  const accelerator = acceleratorName(remote);
  if (accelerator !== null) parts.push(accelerator);
  if (remote.state === 'connected' && remote.roundTripMs !== null) {
    parts.push(trans.__('%1 ms', Math.max(1, Math.round(remote.roundTripMs))));
  }
  return parts.join(' · ');
}

/** Whether an operation is running that can be cancelled. */
export function canCancel({ state }: Pick<Remote, 'state'>): boolean {
  return (
    state === 'connecting' ||
    state === 'setting-up' ||
    state === 'waiting' ||
    state === 'reconnecting' ||
    state === 'queued'
  );
}

/** The launcher's cards for remotes: the recent ones, with their state. No DOM. */
interface IRemoteCard {
  readonly name: string;
  readonly label: string;
  readonly caption: string;
}

/** Further remotes are listed in the dialog. */
const CARDS = 4;

/** Connected or connecting remotes first, then recent ones. */
export function remoteCards(remotes: readonly Remote[], now: number): IRemoteCard[] {
  const isAway = ({ state }: Remote): number => (state === 'disconnected' || state === 'preempted' ? 1 : 0);
  return [...remotes]
    .sort((a, b) => isAway(a) - isAway(b) || (b.lastConnectedAt ?? 0) - (a.lastConnectedAt ?? 0))
    .slice(0, CARDS)
    .map(remote => ({
      name: remote.name,
      label: trans.__('%1 (%2)', remote.name, cardState(remote, now)),
      caption:
        remote.state === 'connected'
          ? trans.__('Open a notebook on %1', remote.name)
          : trans.__('Connect to %1', remote.name)
    }));
}

/** The state on a card, without a countdown, which would change the card every second. */
function cardState(remote: Remote, now: number): string {
  return remote.state === 'reconnecting' ? trans.__('reconnecting') : stateText(remote, now).label;
}
