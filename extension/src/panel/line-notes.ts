/** Notes beside a line of a cell: its cost per step, or how often it was compiled. */
import { type CodeLocation, durationText } from '@tpulab/protocol';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import { shareOf, summarize } from '../steps/summary.js';
import { trans } from '../text/trans.js';

export interface LineNote {
  readonly cellId: string;
  /** From 1, in the code that the cell ran. */
  readonly line: number;
  readonly text: string;
  /** When it was last seen, Unix milliseconds by the kernel's clock: a line changed since then has lost its note. */
  readonly at: number;
}

/** Below this share idle time is not reported. */
const IDLE_FROM = 0.05;

/**
 * The notes of a kernel, one for each line: the newest where there are several.
 *
 * @param window number of newest steps over which idle time is averaged
 */
export function lineNotes(kernel: KernelTelemetry, window: number): LineNote[] {
  const notes = [...compiledNotes(kernel), ...waitingNotes(kernel, window)];
  return [...new Map(notes.map(note => [`${note.cellId} ${note.line}`, note])).values()];
}

/** Lines at which each step waits for a device value. */
function waitingNotes(kernel: KernelTelemetry, window: number): LineNote[] {
  return kernel.advice.flatMap(({ kind, run: id, location }) => {
    const run = kernel.runs.runs.find(one => one.id === id);
    const summary = kind === 'sync-each-step' && run ? summarize(run.steps, window) : null;
    if (!run || !summary) {
      return [];
    }
    const idle = summary.spans.find(({ span }) => span === 'gap')?.meanMs ?? 0;
    const text =
      summary.deviceKnown && shareOf(summary, 'gap') >= IDLE_FROM
        ? trans.__('device idle %1 per step', durationText(idle))
        : trans.__('waits for the device in each step');
    return placed(location, text, run.lastMessageAt);
  });
}

/** Lines at which a function was compiled more than once. */
function compiledNotes(kernel: KernelTelemetry): LineNote[] {
  const lines = new Map<string, { count: number; location: CodeLocation; at: number }>();
  for (const { location, state, startedAt, durationMs } of kernel.compilations.entries) {
    if (location && state === 'finished') {
      const key = `${location.cellId} ${location.line}`;
      const count = (lines.get(key)?.count ?? 0) + 1;
      lines.set(key, { count, location, at: startedAt + (durationMs ?? 0) });
    }
  }
  return [...lines.values()].flatMap(({ count, location, at }) =>
    count > 1 ? placed(location, trans.__('compiled %1×', count), at) : []
  );
}

function placed(location: CodeLocation | null, text: string, at: number): LineNote[] {
  return location?.cellId != null && location.line !== null
    ? [{ cellId: location.cellId, line: location.line, text, at }]
    : [];
}
