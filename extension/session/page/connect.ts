/** The extension's dialogs "Connect to a TPU…" and "Set up JAX", above this page's notebook. Loaded when a dialog is opened. */
import { showSetupDialog } from '../../src/launcher/setup-dialog.js';
import { EnvironmentSetup, offeredEnvironment } from '../../src/launcher/setup-model.js';
import { remotePlace } from '../../src/backends/spec-names.js';
import { RemoteActions } from '../../src/remotes/actions.js';
import { showConnectDialog } from '../../src/remotes/dialog/connect-dialog.js';
import { waitForSpec } from '../../src/remotes/open-notebook.js';
import { showSyncDialog } from '../../src/remotes/sync-dialog.js';
import type { OpenNotebook } from '../notebook/open.js';
import type { SessionPage } from './session-page.js';
import { trans } from '../../src/text/trans.js';

/** A remote that the gateway reports as connected is one or two round trips away. */
const SERVING_WAIT_MS = 30_000;

export async function connect(
  { backends, managers }: SessionPage,
  { context, panel }: OpenNotebook,
  name: string | null = null
): Promise<void> {
  const actions = new RemoteActions(backends.remotes);
  const folder = (): string => context.path.split('/').slice(0, -1).join('/');
  await showConnectDialog({
    actions,
    name,
    page: {
      folder,
      sync: (remote, synced) =>
        void showSyncDialog({ remotes: actions.remotes, name: remote, folder: synced }),
      notebook: async () => context.path,
      open: async remote => {
        await backends.gateway(remotePlace(remote.name))?.serving(SERVING_WAIT_MS);
        const spec = await waitForSpec(
          remote,
          managers.kernelspecs,
          SERVING_WAIT_MS,
          trans.__('%1 lists no kernels; see its log.', remote.name)
        );
        await panel.sessionContext.changeKernel({ name: spec });
      }
    }
  });
}

/** The notebook gets its kernel as soon as the server lists it. */
export async function setUp({ backends, managers }: SessionPage): Promise<void> {
  const { api } = backends.remotes;
  const environment = offeredEnvironment(await api.environments());
  if (environment !== null) {
    await showSetupDialog({ setup: new EnvironmentSetup(api, environment), onLessons: null });
  }
  await managers.kernelspecs.refreshSpecs();
}
