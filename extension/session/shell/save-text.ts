import type { SaveState } from '../notebook/saving.js';
import { timeText, trans } from '../text.js';

/**
 * What the top bar says of the file.
 *
 * @param isLive the page hears the kernel, not only the file
 */
export function saveText(state: SaveState, isLive: boolean): string {
  switch (state.kind) {
    case 'loading':
      return trans.__('Loading…');
    case 'read-only':
      return isLive ? trans.__('View only, live') : trans.__('View only, as saved');
    case 'saved':
      return state.at === null ? trans.__('Saved') : trans.__('Saved %1', timeText(state.at));
    case 'dirty':
      return trans.__('Not saved yet');
    case 'saving':
      return trans.__('Saving…');
    case 'failed':
      return trans.__('Not saved');
    case 'old-format':
      return trans.__('Not changed: nbformat %1', state.version);
    case 'deleted':
      return trans.__('Not saved: the file was deleted');
    case 'unreadable':
      return trans.__('Not opened');
    case 'conflict':
      return trans.__('Not saved: the file has changed');
  }
}
