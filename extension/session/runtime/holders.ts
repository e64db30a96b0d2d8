/** Who holds the chips, a line each. */
import type { HoldersPage } from '@tpulab/protocol';

export interface HolderLine {
  readonly name: string;
  readonly detail: string;
}

export function holdersText(page: HoldersPage | null): readonly HolderLine[] {
  return (page?.holders ?? []).map(({ pid, command, kernel }) => ({
    name: kernel?.documents.join(', ') || command || `process ${pid}`,
    detail: kernel === null ? `another process, pid ${pid}` : `a kernel of this gateway, pid ${pid}`
  }));
}
