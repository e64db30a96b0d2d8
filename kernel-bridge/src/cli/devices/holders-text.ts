/** What `tpulab holders` shows to people: a line for each process, and what to do. */
import type { Holder, HoldersPage, LibtpuLock } from '@tpulab/protocol';

export function holdersText({ chips, holders, lock }: HoldersPage): string {
  if (chips === 0 && holders.length === 0 && lock.state === 'none') return 'No TPU chips on this machine.';
  const lines = holders.flatMap(holderLines);
  if (holders.length === 0) lines.push('Nobody that you may see holds the chips.');
  return [...lines, ...lockLines(lock)].join('\n');
}

function holderLines({ pid, user, command, nodes, kernelId, kernel }: Holder): string[] {
  const what = nodes.length === 0 ? "libtpu's lock" : nodes.join(', ');
  const head = `process ${pid}  ${command ?? 'unknown'} of ${user ?? 'unknown'}  holds ${what}`;
  if (kernel === null) {
    const whose = kernelId === null ? 'no kernel of this bridge' : `a kernel of another bridge (${kernelId})`;
    return [head, `  ${whose}`];
  }
  const { id, name, executionState, idleS, documents } = kernel;
  const state = executionState === 'idle' ? `idle for ${duration(idleS)}` : executionState;
  const notebook = documents.length === 0 ? 'no notebook' : documents.join(', ');
  return [head, `  kernel ${id} (${name}), ${notebook}, ${state}`, `  end it: tpulab holders --end ${pid}`];
}

function lockLines({ path, state, owner }: LibtpuLock): string[] {
  if (state !== 'left') return [];
  return [`${path} of ${owner ?? 'unknown'} is left over.`, '  remove it: tpulab holders --remove-lock'];
}

/** `3 h 5 min`, `12 min`, `40 s` */
function duration(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
