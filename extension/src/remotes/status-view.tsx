/** One item of the status bar: the remote of the current kernel, or else a remote that needs attention. */
import type { JSX } from 'react';
import type { Remote } from '@tpulab/protocol';
import { useChanges, useSeconds } from '../ui/use-changes.js';
import type { RemoteStatus } from './status-model.js';
import { figuresText, stateText } from './state-text.js';

interface IRemoteItemProps {
  readonly model: RemoteStatus;
  readonly onShow: (remote: Remote) => void;
}

export function RemoteItem({ model, onShow }: IRemoteItemProps): JSX.Element | null {
  useChanges(model, false);
  const { shown } = model;
  useSeconds(shown?.state === 'reconnecting');
  if (!shown) return null;
  const { label, detail } = stateText(shown, Date.now());
  const figures = figuresText(shown);
  const text = shown.state === 'connected' ? figures || label : label;
  return (
    <button
      type="button"
      className={`jp-TPULabStatus jp-TPULabStatus-remote jp-mod-${shown.state}`}
      title={`${shown.name}: ${label}. ${detail}`}
      onClick={() => onShow(shown)}
    >
      <span>{shown.name}</span> <span className="jp-TPULab-number">{text}</span>
    </button>
  );
}
