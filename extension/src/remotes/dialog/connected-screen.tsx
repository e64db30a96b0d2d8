/** A connected remote: a notebook is opened on it, unless another user has its TPU. */
import { type JSX, useEffect, useState } from 'react';
import { LogView } from '../log-view.js';
import { folderUnder } from '../../backends/sync-folders.js';
import { machineFacts } from './after-connecting.js';
import { DoneView, type FolderState, HoldersView } from './connected-view.js';
import { FIRST, Frame } from './frame.js';
import { Icon } from './icons.js';
import type { IRemoteProps } from './remote-props.js';
import { progressOf } from './stage-rows.js';
import { StagesView } from './stages-view.js';
import { useAnswer } from './use-answer.js';
import { Button } from '../../ui/button.js';
import { trans } from '../../text/trans.js';

export function ConnectedScreen({ remote, actions, page, onBack, onClose }: IRemoteProps): JSX.Element {
  const { name } = remote;
  const { api } = actions.remotes;
  const [requested, setRequested] = useState(0);
  const facts = useAnswer(() => machineFacts(api, name), `${name} ${requested}`);
  const notebook = useAnswer(() => page.notebook(), name);
  const folder = notebook.value === null ? page.folder() : folderOf(notebook.value);
  const folderState = useFolder(
    api,
    name,
    notebook.isAsking ? null : folder,
    trans.__('Its files could not be counted.')
  );
  const [problem, setProblem] = useState<string | null>(null);
  const [isOpening, setOpening] = useState(false);
  const [pid, setPid] = useState<number | null>(null);
  const holders = facts.value?.holders ?? [];
  const advice = remote.checks.filter(({ state }) => state !== 'ok').length;
  const open = (): void => {
    setOpening(true);
    setProblem(null);
    page.open(remote, notebook.value).then(onClose, (error: unknown) => {
      setOpening(false);
      setProblem(error instanceof Error ? error.message : String(error));
    });
  };
  const shutDown = (holder: number): void => {
    setPid(null);
    setProblem(null);
    api
      .endHolder(name, holder)
      .catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)))
      .finally(() => setRequested(requested + 1));
  };
  const back = (
    <Button kind="bare" onClick={onBack}>
      <Icon name="left" />
      <span className="jp-TPULabWide">{trans.__('Back to the list')}</span>
      <span className="jp-TPULabNarrow">{trans.__('Back')}</span>
    </Button>
  );
  if (holders.length > 0) {
    return (
      <Frame
        screen={`held ${name}`}
        title={name}
        onClose={onClose}
        aside={
          <Button {...FIRST} disabled={facts.isAsking} onClick={() => setRequested(requested + 1)}>
            <Icon name="sync" />
            {trans.__('Check again')}
          </Button>
        }
        buttons={
          <Button kind="primary" disabled={isOpening} onClick={open}>
            {trans.__('Open notebook anyway')}
          </Button>
        }
      >
        <HoldersView
          {...{ name, holders, problem }}
          requested={pid}
          onRequest={setPid}
          onShutDown={shutDown}
        />
      </Frame>
    );
  }
  return (
    <Frame
      screen={`done ${name}`}
      title={name}
      onClose={onClose}
      aside={back}
      buttons={
        <>
          {remote.source.kind === 'colab' ? (
            <Button onClick={() => void actions.disconnect(name, true)}>
              {trans.__('Disconnect and end runtime')}
            </Button>
          ) : null}
          <Button onClick={onClose}>{trans.__('Close')}</Button>
        </>
      }
    >
      <DoneView
        {...{ remote, folderState, isOpening, problem }}
        facts={facts.value}
        notebook={notebook.value}
        folder={folder === '' ? trans.__('This folder') : `${folder}/`}
        onOpen={open}
        onSync={() => {
          onClose();
          page.sync(name, folder);
        }}
      />
      <details className="jp-TPULabDetails">
        <summary>
          {trans.__('Setup details')}
          {advice === 0 ? '' : ` (${trans._n('%1 warning', '%1 warnings', advice)})`}
        </summary>
        <StagesView rows={progressOf(remote).rows} {...{ remote, actions }} />
        <LogView {...{ remote, actions }} />
      </details>
    </Frame>
  );
}

/** The preview of a folder sync, without copying; null: the folder is not known yet. */
function useFolder(
  api: IRemoteProps['actions']['remotes']['api'],
  name: string,
  folder: string | null,
  unknown: string
): FolderState {
  const [state, setState] = useState<FolderState>({ kind: 'counting' });
  useEffect(() => {
    if (folder === null) return undefined;
    const closed = new AbortController();
    api.planSync(name, { localFolder: folderUnder(folder), direction: 'to-remote' }, closed.signal).then(
      ({ files, bytes }) => setState({ kind: 'counted', files, bytes }),
      (error: unknown) => {
        if (!closed.signal.aborted) {
          setState({ kind: 'unknown', why: error instanceof Error ? error.message : unknown });
        }
      }
    );
    return () => closed.abort();
  }, [api, name, folder, unknown]);
  return state;
}

function folderOf(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}
