/** The requests to a run and their results, newest first. */
import { type ControlMessage, countText, durationText } from '@tpulab/protocol';
import { type JSX, useState } from 'react';
import type { Run } from '../events/run.js';
import { bandName, commandText } from '../steps/step-marks.js';
import { trans } from '../text/trans.js';

/** The entries of a log, for a live run and a stored run alike. */
export interface LoggedRun {
  readonly bands: Run['bands'];
  readonly commands: Run['commands'];
  /** The file to which the run writes its log. */
  readonly file: string | null;
  /** No step follows: commands that still wait for a step were never applied. */
  readonly over: boolean;
}

interface LogViewProps {
  readonly run: LoggedRun;
}

const LINES_SHOWN = 6;

interface LogLine {
  readonly key: string;
  readonly time: number;
  readonly step: number | null;
  readonly text: string;
  readonly failed: boolean;
}

export function LogView({ run }: LogViewProps): JSX.Element | null {
  const [all, setAll] = useState(false);
  const lines = linesOf(run);
  if (lines.length === 0) {
    return null;
  }
  const shown = all ? lines : lines.slice(0, LINES_SHOWN);
  return (
    <div className="jp-TPULabLog">
      <ol className="jp-TPULabLog-lines" aria-label={trans.__('Requests to the run, newest first')}>
        {shown.map(({ key, step, text, failed }) => (
          <li key={key} className={failed ? 'jp-TPULab-failure' : undefined}>
            <span className="jp-TPULabLog-step">{step === null ? '–' : countText(step)}</span> {text}
          </li>
        ))}
      </ol>
      {run.file ? (
        <code className="jp-TPULab-quiet" title={trans.__("Run log, on the kernel's machine")}>
          {run.file}
        </code>
      ) : null}
      {lines.length > LINES_SHOWN ? (
        <button type="button" className="jp-TPULab-link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all
            ? trans.__('Show fewer')
            : trans._n('Show %1 earlier one', 'Show %1 earlier ones', lines.length - shown.length)}
        </button>
      ) : null}
    </div>
  );
}

/** Work that was not requested by hand is in the log too: it took time from the steps. */
export function linesOf(run: LoggedRun): LogLine[] {
  const commands = run.commands.map((command): LogLine => ({
    key: command.id,
    time: command.time,
    step: command.step,
    text: `${commandText(command)} · ${phaseText(command, run)}`,
    failed: command.phase === 'failed' || command.phase === 'refused' || command.phase === 'expired'
  }));
  const requestedSteps = new Set(run.commands.map(({ action, step }) => `${action} ${step ?? ''}`));
  const bands = run.bands
    .filter(
      ({ kind, step }) => kind !== 'transfer' && kind !== 'pause' && !requestedSteps.has(`${kind} ${step}`)
    )
    .map(({ kind, step, startTime, durationMs, failed }): LogLine => ({
      key: `${kind} ${startTime}`,
      time: startTime,
      step,
      text: `${bandName(kind)} · ${failed ? trans.__('failed') : durationText(durationMs)}`,
      failed
    }));
  return [...commands, ...bands].sort((a, b) => b.time - a.time);
}

function phaseText({ phase, reason, durationMs }: ControlMessage, { over }: LoggedRun): string {
  const why = reason === null ? '' : `: ${reason}`;
  switch (phase) {
    case 'accepted':
      return over ? trans.__('not applied: no further step') : trans.__('waiting for the next step');
    case 'applied':
      return durationMs === null ? trans.__('applied') : durationText(durationMs);
    case 'refused':
      return `${trans.__('refused')}${why}`;
    case 'expired':
      return `${trans.__('expired')}${why}`;
    case 'failed':
      return `${trans.__('failed')}${why}`;
  }
}
