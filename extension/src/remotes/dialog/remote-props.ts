/** The properties of a remote's screens. */
import type { Remote } from '@tpulab/protocol';
import type { RemoteActions } from '../actions.js';

/** Services of the page around the dialog. */
export interface IConnectPage {
  /** Path of the notebook that would be opened on a remote; null: a new one. */
  readonly notebook: () => Promise<string | null>;
  /** Resolves when the notebook runs on the remote. Throws readable errors. */
  readonly open: (remote: Remote, notebook: string | null) => Promise<void>;
  /** Folder of the file browser, as Lab names it. */
  readonly folder: () => string;
  readonly sync: (remote: string, folder: string) => void;
}

export interface IRemoteProps {
  readonly remote: Remote;
  readonly actions: RemoteActions;
  readonly page: IConnectPage;
  readonly onBack: () => void;
  readonly onClose: () => void;
}
