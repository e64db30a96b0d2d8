import type { SaveState } from '../notebook/saving.js';

/**
 * What the top bar says of the file.
 *
 * @param isLive the page hears the kernel, not only the file
 */
export function saveText(state: SaveState, isLive: boolean): string {
  switch (state.kind) {
    case 'loading':
      return 'Loading…';
    case 'read-only':
      return isLive ? 'View only, live' : 'View only, as saved';
    case 'saved':
      return state.at === null ? 'Saved' : `Saved ${timeText(state.at)}`;
    case 'dirty':
      return 'Not saved yet';
    case 'saving':
      return 'Saving…';
    case 'failed':
      return 'Not saved';
    case 'conflict':
      return 'Not saved: the file has changed';
  }
}

function timeText(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });
}
