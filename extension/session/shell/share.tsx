/** "Share a read-only link": links that let others read this notebook and watch it run. Loaded when it is opened. */
import { type JSX, useEffect, useId, useState } from 'react';
import { URLExt } from '@jupyterlab/coreutils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { NewShare, Share, ShareList } from '@tpulab/protocol';
import { requestBridge } from '../../src/backends/bridge-request.js';
import { readable } from '../../src/reattach/outputs-api.js';
import { FormDialog } from '../../src/remotes/form-dialog.js';
import { addressOf } from '../page/address.js';
import type { SessionPage } from '../page/session-page.js';
import { Icon } from './icons.js';
import { trans } from '../text.js';
import { Button } from './plain.js';

const TIMEOUT_MS = 20_000;
const TITLE_ID = 'tpl-share-title';
const DURATIONS = [
  { hours: 1, label: trans.__('1 hour') },
  { hours: 24, label: trans.__('1 day') },
  { hours: 24 * 7, label: trans.__('7 days') },
  { hours: 24 * 30, label: trans.__('30 days') }
] as const;
/** Others cannot open such an address: on their machine it means their own computer. */
const LOOPBACK = /^(localhost|127\.|\[::1\])/;

/** Resolves when the dialog is closed. */
export async function showShareDialog(page: SessionPage, path: string): Promise<void> {
  const body = ReactWidget.create(<ShareBody page={page} path={path} onClose={() => dialog.reject()} />);
  const dialog = new FormDialog(body, TITLE_ID);
  await dialog.launch();
}

async function request<T>(page: SessionPage, route: string, method = 'GET', body?: object): Promise<T> {
  const answer = await requestBridge({
    settings: page.drive.serverSettings,
    route: URLExt.join('bridge/v1/links', route),
    method,
    ...(body && { body }),
    timeoutMs: TIMEOUT_MS
  });
  return (answer.response.status === 204 ? undefined : readable(answer)) as T;
}

interface BodyProps {
  readonly page: SessionPage;
  readonly path: string;
  readonly onClose: () => void;
}

function ShareBody({ page, path, onClose }: BodyProps): JSX.Element {
  const [shares, setShares] = useState<readonly Share[]>([]);
  const [hours, setHours] = useState<number>(24);
  const [link, setLink] = useState<string | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const durationId = useId();
  const run = (action: () => Promise<void>): void => {
    setFailure(null);
    action().catch((error: unknown) => setFailure(error instanceof Error ? error.message : String(error)));
  };
  const load = async (): Promise<void> => {
    const { shares: all } = await request<ShareList>(page, '');
    setShares(all.filter(share => share.path === path && !share.expired));
  };
  // eslint-disable-next-line react-hooks/exhaustive-deps -- loads once: this dialog makes all later changes itself
  useEffect(() => run(load), []);
  const create = async (): Promise<void> => {
    const { token } = await request<NewShare>(page, '', 'POST', { path, expiresInHours: hours });
    const address = new URL(addressOf(window, path), window.location.href);
    setLink(`${address.href}#${new URLSearchParams({ token }).toString()}`);
    await load();
  };
  return (
    <div className="tpl-Share">
      <div>
        <h2 id={TITLE_ID}>{trans.__('Share a read-only link to %1', path.split('/').at(-1))}</h2>
      </div>
      <p>
        {trans.__(
          'Anyone with the link can view this notebook, its outputs and its training steps as they happen. They cannot run, change or stop anything.'
        )}
      </p>
      <div className="tpl-Share-row">
        <label htmlFor={durationId}>{trans.__('Expires after')}</label>
        <select id={durationId} value={hours} onChange={event => setHours(Number(event.currentTarget.value))}>
          {DURATIONS.map(duration => (
            <option key={duration.hours} value={duration.hours}>
              {duration.label}
            </option>
          ))}
        </select>
        <Button kind="primary" onClick={() => run(create)}>
          {trans.__('Create link')}
        </Button>
      </div>
      {failure === null ? null : <p role="alert">{failure}</p>}
      {link === null ? null : <NewLink link={link} />}
      {shares.length === 0 ? null : (
        <>
          <h3>{trans.__('Links to this notebook')}</h3>
          <ul className="tpl-Share-list">
            {shares.map(share => (
              <li key={share.name}>
                <code>{share.name}</code>
                <span className="jp-TPULab-quiet">{endText(share)}</span>
                <Button
                  aria-label={trans.__('Revoke %1', share.name)}
                  onClick={() =>
                    run(async () => {
                      await request(page, share.name, 'DELETE');
                      setLink(null);
                      await load();
                    })
                  }
                >
                  {trans.__('Revoke')}
                </Button>
              </li>
            ))}
          </ul>
        </>
      )}
      <div className="tpl-Share-foot">
        <Button onClick={onClose}>{trans.__('Close')}</Button>
      </div>
    </div>
  );
}

function NewLink({ link }: { readonly link: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  return (
    <div className="tpl-Share-new">
      <div className="tpl-Share-row">
        <input
          readOnly
          aria-label={trans.__('Link')}
          value={link}
          onFocus={event => event.currentTarget.select()}
        />
        <Button onClick={() => void navigator.clipboard.writeText(link).then(() => setCopied(true))}>
          <Icon name={isCopied ? 'check' : 'link'} />
          <span>{isCopied ? trans.__('Copied') : trans.__('Copy')}</span>
        </Button>
      </div>
      <p className="jp-TPULab-quiet">
        {trans.__('Copy the link now; it is not shown again.')}
        {LOOPBACK.test(new URL(link).host)
          ? ` ${trans.__('It works only on this computer unless you set up a tunnel or proxy.')}`
          : ''}
      </p>
    </div>
  );
}

function endText({ expiresAt }: Share): string {
  return expiresAt === null
    ? trans.__('does not expire')
    : trans.__(
        'expires %1',
        new Date(expiresAt).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' })
      );
}
