/** Each banner states an event, the preserved data and one action: connection, file, kernel, cloud notices, and the page itself. */
import type { JSX } from 'react';
import { countdownText } from '@tpulab/protocol';
import { remoteOfPlace, splitSpecName } from '../../src/backends/spec-names.js';
import { connectionText } from '../../src/status/connection.js';
import { useSeconds } from '../../src/ui/use-changes.js';
import type { Notice } from '../notebook/notices.js';
import type { OpenSession } from '../page/open-session.js';
import type { SessionPage } from '../page/session-page.js';
import { actions, FileBanners } from './file-banners.js';
import { NoticeBar } from './notice-bar.js';
import { useSignals } from './use-signal.js';
import { trans } from '../text.js';

interface BannersProps {
  readonly page: SessionPage;
  readonly session: OpenSession;
}

export function Banners({ page, session }: BannersProps): JSX.Element {
  const { saving, notices } = session;
  useSignals(
    page.status.changed,
    page.current.changed,
    saving.changed,
    notices.changed,
    page.backends.remotes.changed,
    page.backends.changed,
    page.managers.kernelspecs.specsChanged,
    session.context.sessionContext.sessionChanged
  );
  const { connection } = page.status;
  useSeconds(connection.kind === 'reconnecting');
  const all = [
    ...connectionNotices(page),
    ...viewNotices(page, session),
    ...formatNotices(page, session),
    ...cloudNotices(page, session.lostKernelWatch?.remote ?? null),
    ...notices.all
  ];
  return (
    <div className="tpl-Banners">
      <FileBanners
        saving={saving}
        notices={notices}
        unchanged={trans.__('All cells and outputs are still in this page. The kernel keeps running.')}
        onDownload={() => void page.commands.execute('docmanager:download')}
      />
      {all.map(notice => (
        <NoticeBar
          key={notice.id}
          notice={notice}
          onClose={notices.all.includes(notice) ? () => notices.clear(notice.id) : null}
        />
      ))}
    </div>
  );
}

/** The gateway of this page lets readers access its own kernels only. */
function viewNotices({ access }: SessionPage, { context }: OpenSession): Notice[] {
  const spec = (context.model.getMetadata('kernelspec') as { name?: string } | undefined)?.name ?? '';
  const remote = remoteOfPlace(splitSpecName(spec).place);
  return access.isReadOnly && remote !== null && context.sessionContext.session === null
    ? [
        {
          id: 'view',
          tone: 'info',
          text: trans.__(
            'The kernel of this notebook is on %1. This link shows its cells and outputs as they are saved, and no live output or steps.',
            remote
          ),
          actions: []
        }
      ]
    : [];
}

/** Kernels that this page was connected to. */
const wasLive = new Set<string>();

function connectionNotices({ status, current, backends, commands }: SessionPage): Notice[] {
  const { connection } = status;
  const kernel = current.current;
  if (connection.kind === 'live' && kernel.kind === 'bridge') wasLive.add(kernel.kernelId);
  const reconnect = {
    label: trans.__('Reconnect now'),
    onClick: () => void commands.execute('tpulab:reconnect')
  };
  if (kernel.kind !== 'bridge') {
    const { bridge } = backends;
    return bridge.state === 'down' || bridge.state === 'auth'
      ? [
          {
            id: 'connection',
            tone: 'warning',
            text: bridge.lastError?.message ?? trans.__('The server cannot be reached.'),
            actions: [reconnect]
          }
        ]
      : [];
  }
  const remote = remoteOfPlace(kernel.backend.id);
  if (remote !== null && backends.remotes.get(remote)?.state === 'preempted') {
    return []; // a preempted machine does not keep running; another banner reports it
  }
  const where = kernel.backend.id === 'bridge' ? trans.__('the server') : kernel.backend.label;
  switch (connection.kind) {
    case 'reconnecting':
    case 'connecting': {
      if (!wasLive.has(kernel.kernelId)) {
        return []; // a new page takes a moment to connect
      }
      const when =
        connection.kind === 'reconnecting' ? ` in ${countdownText(connection.retryAt - Date.now())}` : '';
      const text = trans.__(
        'Reconnecting to %1%2. The kernel keeps running. Its output is kept and appears here once connected. Edits stay in this page until they can be saved.',
        where,
        when
      );
      return [{ id: 'connection', tone: 'warning', text, actions: [reconnect] }];
    }
    case 'replaying':
      return [
        {
          id: 'connection',
          tone: 'info',
          text: trans.__('Catching up: %1 messages to go. Cells fill in order.', connection.pending),
          actions: []
        }
      ];
    case 'lost': {
      const text = connectionText(connection, Date.now())?.detail ?? '';
      return connection.dead
        ? [
            {
              id: 'connection',
              tone: 'error',
              text: trans.__('%1 Outputs are saved, variables are lost.', text),
              actions: [
                {
                  label: trans.__('Restart the kernel…'),
                  primary: true,
                  onClick: () => void commands.execute('notebook:restart-kernel')
                }
              ]
            }
          ]
        : [{ id: 'connection', tone: 'error', text, actions: [reconnect] }];
    }
    case 'at-risk':
      return [
        {
          id: 'connection',
          tone: 'warning',
          text: connectionText(connection, Date.now())?.detail ?? '',
          actions: []
        }
      ];
    default:
      return [];
  }
}

/** Notices about an old format; only a notebook's file has one. */
function formatNotices({ commands }: SessionPage, session: OpenSession): Notice[] {
  const { saving, context, notices } = session;
  const { state } = saving;
  if (state.kind !== 'old-format') return [];
  const act = actions({
    notices,
    onDownload: () => void commands.execute('docmanager:download')
  });
  const text = trans.__(
    '%1 has an older format. You see it converted from nbformat %2. The file was not changed; edits and outputs are saved once you convert it.',
    context.path.split('/').at(-1) ?? '',
    state.version
  );
  const copy = async (): Promise<void> => {
    const path = await saving.saveCopy('-v4');
    context.model.dirty = false; // the copy contains all changes
    await commands.execute('docmanager:open', { path });
  };
  return [
    {
      id: 'file',
      tone: 'info',
      text,
      actions: [
        { label: trans.__('Convert a copy'), primary: true, onClick: act(copy) },
        ...(saving.canConvert
          ? [{ label: trans.__('Convert the file'), onClick: act(() => saving.convert()) }]
          : [])
      ]
    }
  ];
}

/** @param own the remote of this notebook's kernel; its preemption is reported together with the kernel */
function cloudNotices({ backends, commands }: SessionPage, own: string | null): Notice[] {
  return backends.remotes.all.flatMap(({ name, notice, state }) => {
    if (state === 'preempted') {
      return name === own
        ? []
        : [
            {
              id: `remote ${name}`,
              tone: 'error' as const,
              text: trans.__('%1 was preempted. All output that reached this computer is kept.', name),
              actions: [
                {
                  label: trans.__('Connect to another TPU…'),
                  primary: true,
                  onClick: () => void commands.execute('tpulab:connect')
                }
              ]
            }
          ];
    }
    return notice === null
      ? []
      : [
          {
            id: `remote ${name}`,
            tone: 'error' as const,
            text: `${name}: ${notice.message}`,
            actions: []
          }
        ];
  });
}
