/** The launcher's cards for remotes: the ones of late, with how they are. No DOM. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import { stateText } from './state-text.js';

export interface IRemoteCard {
  readonly name: string;
  readonly label: string;
  readonly caption: string;
}

/** More than these are found in the dialog. */
const CARDS = 4;

/** Those that are connected or on their way first, then those of late. */
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

/** A countdown on a card would change it every second. */
function cardState(remote: Remote, now: number, trans: TranslationBundle): string {
  return remote.state === 'reconnecting' ? trans.__('reconnecting') : stateText(remote, now, trans).label;
}
