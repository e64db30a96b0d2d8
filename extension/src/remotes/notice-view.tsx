/** What the cloud has announced for a remote: how long there is, and what to do with that time. */
import type { JSX } from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote, RemoteNotice } from '@tpulab/protocol';
import { useChanges, useSeconds } from '../panel/use-changes.js';
import { countdownText } from '../text/duration.js';
import type { Remotes } from './model.js';

export interface INoticeProps {
  readonly remote: Remote;
  readonly notice: RemoteNotice;
  readonly trans: TranslationBundle;
}

export function NoticeText({ remote, notice, trans }: INoticeProps): JSX.Element {
  const left = notice.deadline === null ? null : notice.deadline - Date.now();
  const when =
    left === null
      ? trans.__('soon')
      : left > 0
        ? trans.__('in %1', countdownText(left))
        : trans.__('at any moment');
  const what =
    notice.kind === 'preemption'
      ? trans.__('%1 is taken back by the cloud %2.', remote.name, when)
      : trans.__('%1 is serviced by the cloud %2.', remote.name, when);
  const remedy =
    notice.kind === 'preemption'
      ? trans.__(
          'Take a checkpoint to a bucket or sync it here now: the disk of the machine is deleted. Outputs are kept here.'
        )
      : trans.__('Take a checkpoint now: its kernels end with the machine. Outputs are kept here.');
  return (
    <p className="jp-TPULabRemote-notice">
      <strong className="jp-TPULab-number">{what}</strong> {remedy}{' '}
      <span className="jp-TPULab-quiet">{notice.message}</span>
    </p>
  );
}

export interface IBannerProps {
  readonly remotes: Remotes;
  readonly trans: TranslationBundle;
  readonly onShow: (name: string) => void;
  readonly onCheckpoint: (name: string) => void;
}

/** Nothing while no remote has a notice. */
export function NoticeBanner({ remotes, trans, onShow, onCheckpoint }: IBannerProps): JSX.Element | null {
  useChanges(remotes, false, 0);
  const announced = remotes.all.filter(({ notice, state }) => notice !== null && state !== 'preempted');
  useSeconds(announced.length > 0);
  if (announced.length === 0) {
    return null;
  }
  return (
    <div role="alert" className="jp-TPULabBanner">
      {announced.map(remote => (
        <div key={remote.name} className="jp-TPULabBanner-row">
          {remote.notice === null ? null : <NoticeText {...{ remote, trans }} notice={remote.notice} />}
          <button
            type="button"
            className="jp-mod-styled jp-mod-warn"
            onClick={() => onCheckpoint(remote.name)}
          >
            {trans.__('Take a checkpoint')}
          </button>
          <button type="button" className="jp-mod-styled" onClick={() => onShow(remote.name)}>
            {trans.__('Show the remote')}
          </button>
        </div>
      ))}
    </div>
  );
}
