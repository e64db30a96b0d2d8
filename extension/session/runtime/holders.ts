/** Who holds the chips, a line each. */
import type { HoldersPage } from '@tpulab/protocol';
import { trans } from '../text.js';

export interface HolderLine {
  readonly name: string;
  readonly detail: string;
}

export function holdersText(page: HoldersPage | null): readonly HolderLine[] {
  return (page?.holders ?? []).map(({ pid, command, kernel }) => ({
    name: kernel?.documents.join(', ') || command || trans.__('process %1', pid),
    detail:
      kernel === null
        ? trans.__('another process, pid %1', pid)
        : trans.__('a kernel of this server, pid %1', pid)
  }));
}
