/** What the screens of one remote are given. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Remote } from '@tpulab/protocol';
import type { RemoteActions } from '../actions.js';

/** What the page around the dialog does for it. */
export interface IConnectPage {
  /** Path of the notebook that would be opened on a remote; null: a new one. */
  readonly notebook: () => Promise<string | null>;
  /** Resolves when the notebook runs on the remote. Throws what people can read. */
  readonly open: (remote: Remote, notebook: string | null) => Promise<void>;
  /** Of the file browser, as Lab names it. */
  readonly folder: () => string;
  readonly sync: (remote: string, folder: string) => void;
}

export interface IRemoteProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly page: IConnectPage;
  readonly trans: TranslationBundle;
  readonly onBack: () => void;
  readonly onClose: () => void;
}
