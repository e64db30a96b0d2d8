/** Notifications about runs, and the command that requests a checkpoint from running trainings: of one remote, or of all bridges. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ITranslator } from '@jupyterlab/translation';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import { remotePlace } from '../backends/spec-names.js';
import { IBridgeBackends } from '../backends/tokens.js';
import { IBridgeEvents } from '../events/tokens.js';
import { ICurrentKernel } from '../tokens.js';
import { CommandIDs } from '../commands.js';
import { sendCommand } from './control-client.js';
import { allowInBrowser, showNotices } from './browser-notices.js';
import { RunNotices } from './notices.js';
import { type ICheckpointTarget, type ICheckpoints, saveCheckpoints } from './save-checkpoints.js';
import { trans, translateWith } from '../text/trans.js';

/** Writing a large model takes minutes. */
const MAX_MS = 20 * 60_000;

export const runsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@tpulab/labextension:runs',
  description: 'Notifies about runs, and asks running trainings for a checkpoint.',
  autoStart: true,
  requires: [IBridgeBackends, IBridgeEvents],
  optional: [ICurrentKernel, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    backends: IBridgeBackends,
    events: IBridgeEvents,
    current: ICurrentKernel | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    translateWith(translator);
    notify(app, backends, events, current);
    app.commands.addCommand(CommandIDs.checkpoint, {
      label: trans.__('Checkpoint All Running Trainings'),
      caption: trans.__('Ask every running training for a checkpoint at its next step'),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            remote: { type: 'string', description: trans.__('Only runs on this machine') }
          }
        }
      },
      execute: args => {
        const remote = typeof args['remote'] === 'string' ? args['remote'] : null;
        return saveAll(targetsOf(app, backends, events, remote), remote);
      }
    });
    app.commands.addCommand(CommandIDs.allowNotices, {
      label: trans.__('Allow Browser Notifications'),
      caption: trans.__('Notify me of alerts and ends of runs while this page is hidden'),
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => allowInBrowser(Notification)
    });
    for (const command of [CommandIDs.checkpoint, CommandIDs.allowNotices])
      palette?.addItem({ command, category: trans.__('TPULab') });
  }
};

/** Follows every kernel on a bridge for as long as it runs, and a little longer: its last messages arrive after its end. */
function notify(
  { serviceManager }: JupyterFrontEnd,
  backends: IBridgeBackends,
  events: IBridgeEvents,
  current: ICurrentKernel | null
): void {
  const notices = new RunNotices({
    since: Date.now(),
    isWatched: kernelId => {
      const front = current?.current;
      return !document.hidden && front?.kind === 'bridge' && front.kernelId === kernelId;
    }
  });
  const onChanged = (kernel: KernelTelemetry): void => {
    showNotices(notices.check(kernel), Notification);
  };
  const followed = new Set<KernelTelemetry>();
  const follow = (): void => {
    for (const { id } of serviceManager.kernels.running()) {
      const kernel = backends.backendOf(id) === null ? null : events.telemetryOf(id);
      if (kernel && !followed.has(kernel)) {
        followed.add(kernel);
        kernel.changed.connect(onChanged);
        onChanged(kernel);
      }
    }
    for (const kernel of followed) {
      if (kernel.isDisposed) followed.delete(kernel);
    }
  };
  serviceManager.kernels.runningChanged.connect(follow);
  follow();
}

/** The kernels to ask for checkpoints, including kernels of notebooks that are not open in this page. */
function targetsOf(
  { serviceManager }: JupyterFrontEnd,
  backends: IBridgeBackends,
  events: IBridgeEvents,
  remote: string | null
): ICheckpointTarget[] {
  return [...serviceManager.kernels.running()].flatMap(({ id }) => {
    const backend = backends.backendOf(id);
    const isTarget = backend !== null && (remote === null || backend.id === remotePlace(remote));
    return isTarget
      ? [
          {
            kernel: events.telemetryOf(id),
            send: command => sendCommand({ kernelId: id, settings: backend.serverSettings }, command)
          }
        ]
      : [];
  });
}

async function saveAll(targets: readonly ICheckpointTarget[], remote: string | null): Promise<void> {
  const where = remote ?? trans.__('this machine and its remotes');
  const progress = Notification.emit(
    trans.__('Asking the runs on %1 for a checkpoint…', where),
    'in-progress',
    {
      autoClose: false
    }
  );
  const done = await saveCheckpoints(targets, AbortSignal.timeout(MAX_MS));
  // Not updated in its place: JupyterLab loses an update that arrives before the page's first notification is drawn.
  Notification.dismiss(progress);
  const { message, type } = outcome(done, where);
  Notification.emit(message, type, { autoClose: false });
}

function outcome(
  { saved, failed }: ICheckpoints,
  where: string
): { message: string; type: 'success' | 'warning' | 'error' } {
  const [first] = failed;
  if (first) {
    return { type: 'error', message: trans.__('No checkpoint of %1: %2', first.run, first.text) };
  }
  return saved.length === 0
    ? {
        type: 'warning',
        message: trans.__('No run on %1 has a checkpoint function (run.on_checkpoint). Save manually.', where)
      }
    : { type: 'success', message: trans.__('Checkpoint taken: %1', saved.join(', ')) };
}
