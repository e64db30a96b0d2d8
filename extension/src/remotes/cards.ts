/** The launcher's cards for remotes: the recent ones, with their state. No DOM. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import { stateText } from './state-text.js';

export interface IRemoteCard {
  readonly name: string;
  readonly label: string;
  readonly caption: string;
}

/** Further remotes are listed in the dialog. */
const CARDS = 4;

/** Connected or connecting remotes first, then recent ones. */
export function remoteCards(
  remotes: readonly Remote[],
  now: number,
  trans: TranslationBundle
): IRemoteCard[] {
  const isAway = ({ state }: Remote): number => (state === 'disconnected' || state === 'preempted' ? 1 : 0);
  return [...remotes]
    .sort((a, b) => isAway(a) - isAway(b) || (b.lastConnectedAt ?? 0) - (a.lastConnectedAt ?? 0))
    .slice(0, CARDS)
    .map(remote => ({
      name: remote.name,
      label: trans.__('%1 (%2)', remote.name, cardState(remote, now, trans)),
      caption:
        remote.state === 'connected'
          ? trans.__('Open a notebook on %1', remote.name)
          : trans.__('Connect to %1', remote.name)
    }));
}

/** Without a countdown, which would change the card every second. */
function cardState(remote: Remote, now: number, trans: TranslationBundle): string {
  return remote.state === 'reconnecting' ? trans.__('reconnecting') : stateText(remote, now, trans).label;
}
