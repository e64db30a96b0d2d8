/** The stages of connecting, one below the other, with the advice of the machine checks. */
import type { JSX } from 'react';
import type { Remote, RemoteCheck, RemoteStage } from '@tpulab/protocol';
import type { RemoteActions } from '../actions.js';
import { CopyButton } from './command-line.js';
import { Icon, type IconName } from './icons.js';
import { ActionButton } from './remedies.js';
import type { IStageRow } from './stage-rows.js';
import { trans } from '../../text/trans.js';

interface IStagesProps {
  readonly rows: readonly IStageRow[];
  readonly remote: Remote;
  readonly actions: RemoteActions;
}

const MARKS: Readonly<Record<Exclude<IStageRow['state'], 'running'>, IconName>> = {
  done: 'check',
  skipped: 'check',
  failed: 'close',
  'to-come': 'circle'
};

export function StagesView({ rows, remote, actions }: IStagesProps): JSX.Element | null {
  const advice = remote.checks.filter(({ state }) => state !== 'ok');
  const isWaiting = remote.state === 'waiting';
  if (remote.stages.length === 0 && remote.checks.length === 0) return null;
  return (
    <ol className="jp-TPULabStages" aria-label={trans.__('Stages')}>
      {rows.map(row => (
        <li key={row.name} className={`jp-TPULabStage jp-mod-${row.state}`}>
          <StageLine {...{ row, isWaiting }} />
          {(row.name === 'check' ? advice : []).map(check => (
            <Advice key={check.name} {...{ check, remote, actions }} />
          ))}
        </li>
      ))}
    </ol>
  );
}

interface IStageProps {
  readonly row: IStageRow;
  readonly isWaiting: boolean;
}

function StageLine({ row, isWaiting }: IStageProps): JSX.Element {
  const { state, title, detail, fraction, amount } = row;
  const isRunning = state === 'running';
  return (
    <>
      <span className="jp-TPULabStage-mark">
        {isRunning ? <span className="jp-TPULabRing" /> : <Icon name={MARKS[state]} />}
      </span>
      <span className="jp-TPULabStage-title">
        {title}
        <span className="jp-TPULab-unseen">, {stateName(state)}</span>
      </span>
      <span className="jp-TPULabStage-detail">
        {isRunning && isWaiting ? trans.__('waiting for you') : isRunning ? null : detail}
      </span>
      {isRunning && fraction !== null ? <Bar fraction={fraction} label={title} /> : null}
      {isRunning && !isWaiting ? <StageNow detail={detail} amount={amount} /> : null}
    </>
  );
}

/** The running stage's present activity and progress. */
export function StageNow({
  detail,
  amount
}: {
  readonly detail: string;
  readonly amount: string;
}): JSX.Element | null {
  return detail === '' && amount === '' ? null : (
    <span className="jp-TPULabStage-now jp-TPULab-number">
      <span>{detail}</span>
      <span>{amount}</span>
    </span>
  );
}

function stateName(state: IStageRow['state']): string {
  const names: Record<RemoteStage['state'] | 'to-come', string> = {
    running: trans.__('running'),
    done: trans.__('done'),
    skipped: trans.__('not needed'),
    failed: trans.__('failed'),
    'to-come': trans.__('pending')
  };
  return names[state];
}

export function Bar({ fraction, label }: { readonly fraction: number; readonly label: string }): JSX.Element {
  const percent = Math.round(fraction * 100);
  return (
    <span
      className="jp-TPULabBar"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <span style={{ width: `${percent}%` }} />
    </span>
  );
}

/** The result of a check; a command in its remedy is quoted. */
function Advice({
  check,
  remote,
  actions
}: Omit<IStagesProps, 'rows'> & { readonly check: RemoteCheck }): JSX.Element {
  const { name, state, message, remedy, action } = check;
  const [before, command, after] = parted(remedy ?? '');
  return (
    <div className={`jp-TPULabAdvice jp-mod-${state}`} role="note" aria-label={name}>
      <p>
        {sentence(message)} {before}
        {command === null ? null : <code>{command}</code>}
        {after}
      </p>
      {action ? (
        <ActionButton {...{ remote, actions, action }} />
      ) : command === null ? null : (
        <CopyButton text={command} />
      )}
    </div>
  );
}

function parted(remedy: string): readonly [string, string | null, string] {
  const found = /^([^"]*)"([^"]+)"(.*)$/s.exec(remedy);
  return found ? [found[1] ?? '', found[2] ?? null, found[3] ?? ''] : [remedy, null, ''];
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
