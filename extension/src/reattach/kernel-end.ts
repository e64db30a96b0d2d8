/** Reports above a notebook how its kernel has ended if the bridge restarted it automatically, and how far its training was. */
import type { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { countText, type DevicesHistory, sizeText } from '@tpulab/protocol';
import { requestBridge } from '../backends/bridge-request.js';
import type { IBridgeBackends } from '../backends/tokens.js';
import type { Run } from '../events/run.js';
import type { IBridgeEvents } from '../events/tokens.js';
import { type INoticeAction, NoticePlace } from '../ui/notebook-notice.js';
import { trans } from '../text/trans.js';

/** Period before the end of a killed kernel in which its RAM is looked up. */
const RAM_PERIOD_MS = 60_000;
const ANSWER_MS = 10_000;

interface KernelModel {
  readonly reason?: string;
  readonly last_end?: string;
}

export interface IKernelEndParts {
  readonly backends: Pick<IBridgeBackends, 'backendOf'>;
  readonly events: Pick<IBridgeEvents, 'telemetryOf'> | null;
  /** Null for a read-only page. */
  readonly actions: Pick<typeof NotebookActions, 'run' | 'runAllAbove'> | null;
}

/** @returns a function that reports a kernel's end while no page was open, if it is known */
export function followKernelEnd(panel: NotebookPanel, parts: IKernelEndParts): () => Promise<void> {
  const { backends, events } = parts;
  const notice = new NoticePlace(panel.contentHeader);
  const settingsOf = (id: string | undefined): ServerConnection.ISettings | null =>
    id === undefined ? null : (backends.backendOf(id)?.serverSettings ?? null);
  const { sessionContext } = panel;
  // JupyterLab's own dialog blocks the page, and only states that the kernel "appears to have died".
  Object.defineProperty(panel, '_autorestarting', {
    get: () => settingsOf(sessionContext.session?.kernel?.id) !== null,
    set: () => {
      // Our notice has more detail.
    }
  });
  let shownRun: Run | null = null;
  const show = async (immediately: boolean): Promise<void> => {
    const id = sessionContext.session?.kernel?.id;
    const settings = settingsOf(id);
    if (id === undefined || settings === null) return;
    const end = await endOf(id, settings);
    if (end === null && !immediately) return;
    const ram = immediately && end?.includes('SIGKILL') === true ? await ramOf(settings) : null;
    const run = events?.telemetryOf(id).runs.current ?? null;
    const cutOff = run === shownRun || run?.state !== 'interrupted' ? null : run;
    shownRun = cutOff ?? shownRun;
    const text = [
      end === null ? trans.__('The kernel ended.') : trans.__('The kernel ended: %1.', end),
      ram === null ? [] : trans.__('RAM in use reached %1 in its last minute.', sizeText(ram)),
      cutOff === null ? [] : reached(cutOff),
      trans.__('It was restarted. Outputs are kept, variables are lost.')
    ];
    notice.show({ text: text.flat().join(' '), actions: cutOff === null ? [] : again(panel, cutOff, parts) });
  };
  sessionContext.statusChanged.connect((_, status) => {
    if (status === 'autorestarting') void show(true);
  });
  return () => show(false);
}

function checkpointOf({ bands }: Run): number | null {
  return bands.findLast(({ kind, failed }) => kind === 'checkpoint' && !failed)?.step ?? null;
}

function reached(run: Run): string {
  const { name, steps, totalSteps } = run;
  if (steps.length === 0) return trans.__('The run "%1" had no steps yet.', name);
  const step = countText(steps.index(steps.length - 1));
  const progress = totalSteps === null ? step : trans.__('%1 of %2', step, countText(totalSteps));
  const saved = checkpointOf(run);
  return saved === null
    ? trans.__('The run "%1" had reached step %2 and saved no checkpoint.', name, progress)
    : trans.__(
        'The run "%1" had reached step %2; its last checkpoint is from step %3.',
        name,
        progress,
        countText(saved)
      );
}

/** Runs the cells up to and including the training, which then loads its newest checkpoint itself. */
function again(panel: NotebookPanel, run: Run, { actions }: IKernelEndParts): INoticeAction[] {
  const { content, sessionContext } = panel;
  const indexOf = (): number => content.widgets.findIndex(({ model }) => model.id === run.location?.cellId);
  if (actions === null || checkpointOf(run) === null || indexOf() < 0) return [];
  const onClick = async (): Promise<void> => {
    content.activeCellIndex = indexOf();
    content.deselectAll();
    if (content.activeCellIndex > 0 && !(await actions.runAllAbove(content, sessionContext))) return;
    content.activeCellIndex = indexOf();
    await actions.run(content, sessionContext);
  };
  return [{ label: trans.__('Run up to the training again'), onClick: () => void onClick() }];
}

async function endOf(id: string, settings: ServerConnection.ISettings): Promise<string | null> {
  const kernel = await answerOf<KernelModel>(`api/kernels/${encodeURIComponent(id)}`, settings);
  return kernel?.reason ?? kernel?.last_end ?? null;
}

/** RAM of the machine, in bytes; null where there are no samples. */
async function ramOf(settings: ServerConnection.ISettings): Promise<number | null> {
  const route = `bridge/v1/devices/history?tier=1&from=${Date.now() - RAM_PERIOD_MS}`;
  const used = (await answerOf<DevicesHistory>(route, settings))?.series['host.memoryUsedBytes']?.max;
  return used === undefined ? null : Math.max(...used.map(Number)) || null;
}

/** Null where the bridge cannot answer. */
async function answerOf<T>(route: string, settings: ServerConnection.ISettings): Promise<T | null> {
  const answer = await requestBridge({ settings, route, timeoutMs: ANSWER_MS }).catch(() => null);
  return answer?.response.ok === true ? (answer.body as T) : null;
}
