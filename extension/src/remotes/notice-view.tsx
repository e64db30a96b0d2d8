/** The cloud's announcement for a remote: the remaining time, and the possible actions. */
import { type JSX, useEffect, useRef } from 'react';
import { countdownText, type Remote, type RemoteNotice } from '@tpulab/protocol';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import type { Remotes } from '../backends/remotes-model.js';
import { Button } from '../ui/button.js';
import { trans } from '../text/trans.js';

interface INoticeProps {
  readonly remote: Remote;
  readonly notice: RemoteNotice;
}

export function NoticeText({ remote, notice }: INoticeProps): JSX.Element {
  const left = notice.deadline === null ? null : notice.deadline - Date.now();
  const when =
    left === null
      ? trans.__('soon')
      : left > 0
        ? trans.__('in %1', countdownText(left))
        : trans.__('at any moment');
  const what =
    notice.kind === 'preemption'
      ? trans.__('%1 will be preempted', remote.name)
      : trans.__('Maintenance of %1 begins', remote.name);
  const remedy =
    notice.kind === 'preemption'
      ? trans.__('Save a checkpoint to a bucket; the disk will be deleted. Output is saved on this computer.')
      : trans.__('Save a checkpoint: its kernels end with the machine. Output is saved on this computer.');
  return (
    <p className="jp-TPULabRemote-notice">
      <strong>
        {/* Screen readers skip the ticks of a timer, but would read an alert every second. */}
        {what} <span role="timer">{when}</span>.
      </strong>{' '}
      {remedy}
      {/* A preemption's message repeats the text above; a maintenance message states whether the machine continues elsewhere. */}
      {notice.kind === 'maintenance' ? <span className="jp-TPULab-quiet"> {notice.message}</span> : null}
    </p>
  );
}

interface IBannerProps {
  readonly remotes: Remotes;
  readonly onShow: (name: string) => void;
  readonly onCheckpoint: (name: string) => void;
  /** Called with the height that the banner needs, in pixels, whenever it changes. */
  readonly onHeight: (heightPx: number) => void;
}

/** Draws nothing while no remote has a notice. */
export function NoticeBanner({ remotes, onShow, onCheckpoint, onHeight }: IBannerProps): JSX.Element | null {
  useChanges(remotes, false, 0);
  const banner = useRef<HTMLDivElement>(null);
  const announced = remotes.all.filter(({ notice, state }) => notice !== null && state !== 'preempted');
  const isShown = announced.length > 0;
  useSeconds(isShown);
  useEffect(() => {
    const node = banner.current;
    if (node === null) return undefined;
    const observer = new ResizeObserver(() => onHeight(node.offsetHeight));
    observer.observe(node);
    return () => observer.disconnect();
  }, [isShown, onHeight]);
  if (!isShown) return null;
  return (
    <div ref={banner} role="alert" className="jp-TPULabBanner">
      {announced.map(remote => (
        <div key={remote.name} className="jp-TPULabBanner-row">
          {remote.notice === null ? null : <NoticeText {...{ remote }} notice={remote.notice} />}
          <Button kind="primary" onClick={() => onCheckpoint(remote.name)}>
            {trans.__('Take a checkpoint')}
          </Button>
          <Button onClick={() => onShow(remote.name)}>{trans.__('Show the machine')}</Button>
        </div>
      ))}
    </div>
  );
}
