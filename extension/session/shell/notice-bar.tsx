/** One notice above the notebook or the text: an event, and the possible actions. */
import type { JSX } from 'react';
import type { Notice } from '../notebook/notices.js';
import { Icon, type IconName } from './icons.js';
import { trans } from '../text.js';
import { IconButton } from './plain.js';

const ICONS: Readonly<Record<Notice['tone'], IconName>> = {
  info: 'restart',
  success: 'check',
  warning: 'warning',
  error: 'warning'
};

export function NoticeBar({
  notice: { tone, text, actions },
  onClose
}: {
  readonly notice: Notice;
  /** Null: it stays as long as its reason. */
  readonly onClose: (() => void) | null;
}): JSX.Element {
  return (
    <div className={`tpl-Banner jp-mod-${tone}`} role={tone === 'error' ? 'alert' : 'status'}>
      <Icon name={ICONS[tone]} />
      <p>{text}</p>
      {actions.map(({ label, primary, onClick }) => (
        <button
          key={label}
          type="button"
          className={`tpl-Button${primary === true ? ' jp-mod-primary' : ''}`}
          onClick={onClick}
        >
          {label}
        </button>
      ))}
      {onClose === null ? null : <IconButton icon="close" label={trans.__('Dismiss')} onClick={onClose} />}
    </div>
  );
}
