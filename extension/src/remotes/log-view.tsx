/** The event log of a remote, loaded on request. */
import { type JSX, useEffect, useState } from 'react';
import type { Remote, RemoteLogPage } from '@tpulab/protocol';
import type { RemoteActions } from './actions.js';
import { trans } from '../text/trans.js';

const INTERVAL_MS = 2_000;

interface ILogProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
}

export function LogView({ remote, actions }: ILogProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const [lines, setLines] = useState<RemoteLogPage['lines'] | null>(null);
  const { name } = remote;
  useEffect(() => {
    if (!isOpen) return;
    let isClosed = false;
    const read = (): void => {
      actions.remotes.api.log(name).then(
        page => {
          if (!isClosed) setLines(page);
        },
        // The state shows the problem of the bridge; the next poll may succeed.
        () => undefined
      );
    };
    read();
    const timer = setInterval(read, INTERVAL_MS);
    return () => {
      isClosed = true;
      clearInterval(timer);
    };
  }, [isOpen, name, actions]);
  return (
    <details
      className="jp-TPULabRemote-log"
      onToggle={event => setOpen((event.target as HTMLDetailsElement).open)}
    >
      <summary>{trans.__('Log')}</summary>
      <pre tabIndex={0} aria-label={trans.__('Log of %1', name)}>
        {lines === null
          ? trans.__('Reading…')
          : lines.map(({ at, text }) => `${new Date(at).toLocaleTimeString()}  ${text}`).join('\n')}
      </pre>
    </details>
  );
}
