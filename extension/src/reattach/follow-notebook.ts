/**
 * Reattaches notebooks to the executions of their kernels on a bridge while no page was open. For kernels on unreachable remotes,
 * notebooks show the outputs stored on this machine.
 */
import type { IChangedArgs } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { remoteOfPlace, splitSpecName } from '../backends/spec-names.js';
import type { IBridgeBackends } from '../backends/tokens.js';
import type { IBridgeEvents } from '../events/tokens.js';
import { wait, whenever } from '../platform/wait.js';
import { momentText } from '../text/moment.js';
import { NoticePlace } from '../ui/notebook-notice.js';
import { waitForTurn } from './fill-turn.js';
import { fillFromStored, type IFilled } from './fill-from-stored.js';
import { StoredOutputsApi } from './stored-outputs-api.js';
import { followKernelEnd, type IKernelEndParts } from './kernel-end.js';

import { LabNotebook } from './lab-notebook.js';
import { followWidgetStates } from './open-widgets.js';
import { SavedMark } from './saved-mark.js';
import { kernelRoute, OutputsApi } from './outputs-api.js';
import { type IReattached, type IUnplaced, reattach } from './reattachment.js';
import { ALL_TRUSTED, type ITrust, RequestedHere } from './trust.js';
import { trans } from '../text/trans.js';

/** Maximum number of attempts of a page opened while the bridge is unreachable, one each time the connection is back. */
const MAX_ATTEMPTS = 5;
/** Time for the bridge to report its remotes, and the pause after a request that it could not answer. */
const BRIDGE_WAIT_MS = 30_000;
const RETRY_MS = 5_000;
/** Longer than the reading of any journal. */
const ATTEMPT_TIMEOUT_MS = 120_000;

interface IShownUnplaced {
  readonly unplaced: readonly IUnplaced[];
  /** The command that prints the same output. */
  readonly command: string;
}

/** Dependencies provided by the page around the notebooks. */
export interface IFollowParts {
  readonly backends: IBridgeBackends;
  readonly events: IBridgeEvents | null;
  readonly actions: IKernelEndParts['actions'];
  /** Asks the user whether to trust the whole notebook. */
  readonly trust: (panel: NotebookPanel) => Promise<unknown>;
  /** Loads the widget code, where it is not loaded from the start. */
  readonly loadWidgets?: () => Promise<unknown>;
  /** Reports outputs without a place, and offers to show them. */
  readonly showUnplaced: (panel: NotebookPanel, message: string, shown: IShownUnplaced) => void;
  /**
   * For a read-only page: it shows the runs of others as they happen. Emitted when the cells may have been updated to the executed
   * code.
   */
  readonly cellsReloaded?: ISignal<unknown, void>;
}

/** Follows a notebook and all its kernels until the notebook is closed. */
export function followNotebook(panel: NotebookPanel, parts: IFollowParts): void {
  const { sessionContext } = panel;
  const closed = new AbortController();
  const mark = new SavedMark(panel.context);
  const notice = new NoticePlace(panel.contentHeader);
  const trustNotice = new NoticePlace(panel.contentHeader);
  const showEnd = followKernelEnd(panel, parts);
  let abort = new AbortController();
  /** The kernel's own data is more complete than the stored copy. */
  const attachTo = async (kernel: Kernel.IKernelConnection): Promise<void> => {
    const { signal } = abort;
    let result: IReattached | null;
    await turn(panel, kernel.id, signal);
    const runs =
      parts.cellsReloaded === undefined ? null : new OtherRuns(kernel, parts.cellsReloaded, signal);
    do {
      runs?.seen();
      result = await attach({ panel, kernel, mark }, parts, signal);
      if (result !== null && result.running.length + result.filled.length > 0) {
        notice.clear();
        showUntrusted(panel, trustNotice, result.untrusted, parts);
      }
      if (result?.isCutOff === true) await showEnd();
    } while (await (runs?.next() ?? untilOneLeaves(result?.elsewhere ?? [], kernel.id, parts, signal)));
  };
  const onKernel = (
    _: unknown,
    { newValue }: IChangedArgs<Kernel.IKernelConnection | null, Kernel.IKernelConnection | null, 'kernel'>
  ): void => {
    abort.abort();
    abort = new AbortController();
    if (newValue) void attachTo(newValue);
  };
  sessionContext.kernelChanged.connect(onKernel);
  const kernel = sessionContext.session?.kernel;
  if (kernel) void attachTo(kernel);
  void fill(panel, { mark, notice, trustNotice }, parts, closed.signal);
  panel.disposed.connect(() => {
    abort.abort();
    closed.abort();
    sessionContext.kernelChanged.disconnect(onKernel);
  });
}

/** Waits until it is this page's turn to fill the cells, where several share them. Never rejects. */
async function turn(panel: NotebookPanel, what: string, signal: AbortSignal): Promise<void> {
  await panel.context.ready;
  const { collaborative, sharedModel } = panel.context.model;
  if (collaborative !== true || signal.aborted) return;
  await waitForTurn(sharedModel.awareness, what, signal);
}

/** Waits until one of these pages has left; its cells are then filled here. False when there is none, or at the end. */
async function untilOneLeaves(
  sessions: readonly string[],
  kernelId: string,
  { events }: IFollowParts,
  signal: AbortSignal
): Promise<boolean> {
  const telemetry = events?.telemetryOf(kernelId);
  if (sessions.length === 0 || !telemetry) return false;
  const isClosed = (): boolean => sessions.some(session => telemetry.client(session) === null);
  return whenever([telemetry.changed], isClosed, signal).then(
    () => true,
    () => false
  );
}

interface IFillPlaces {
  readonly mark: SavedMark;
  readonly notice: NoticePlace;
  readonly trustNotice: NoticePlace;
}

/** Fills cells from the stored outputs of a kernel on a remote. Never rejects. */
async function fill(
  panel: NotebookPanel,
  { mark, notice, trustNotice }: IFillPlaces,
  parts: IFollowParts,
  signal: AbortSignal
): Promise<void> {
  const { backends } = parts;
  await Promise.all([panel.context.ready, panel.revealed]);
  const remote = remoteOfPlace(splitSpecName(panel.context.model.defaultKernelName).place);
  if (remote === null) return;
  await turn(panel, remote, signal);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !signal.aborted; attempt += 1) {
    await backends.remotes.settled(BRIDGE_WAIT_MS);
    try {
      const filled = await fillFromStored({
        stored: new StoredOutputsApi(() => backends.bridge.serverSettings, remote),
        notebook: new LabNotebook(panel, mark),
        path: panel.context.localPath,
        signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)])
      });
      showFilled(panel, notice, remote, filled, parts);
      showUntrusted(panel, trustNotice, filled.untrusted, parts);
      return;
    } catch {
      await wait(RETRY_MS, signal);
    }
  }
}

function showFilled(
  panel: NotebookPanel,
  notice: NoticePlace,
  remote: string,
  { filled, unfinished, unplaced, last }: IFilled,
  parts: IFollowParts
): void {
  if (last !== null) {
    const command = `tpulab outputs --machine ${remote} ${last.kernelId}`;
    const many = trans._n(
      'One cell shows its output on %2 as copied to this machine, up to %3.',
      '%1 cells show their output on %2 as copied to this machine, up to %3.',
      filled.length,
      remote,
      momentText(last.at, Date.now())
    );
    notice.show({ text: `${many}${unfinishedText(unfinished.length, filled.length)}`, actions: [] });
    report(panel, { unplaced, command }, parts);
  } else if (unplaced.length > 0) {
    report(panel, { unplaced, command: `tpulab outputs --machine ${remote} KERNEL` }, parts);
  }
}

/** Until the user trusts it, output of uncertain origin is shown without scripts. */
function showUntrusted(
  panel: NotebookPanel,
  notice: NoticePlace,
  untrusted: readonly string[],
  { trust }: IFollowParts
): void {
  if (untrusted.length === 0) return;
  notice.show({
    text: trans._n(
      'One cell shows output that was not requested from this computer. It is shown without scripts until you run the cell or trust the notebook.',
      '%1 cells show output that was not requested from this computer. It is shown without scripts until you run the cells or trust the notebook.',
      untrusted.length
    ),
    actions: [
      {
        label: trans.__('Trust Notebook…'),
        stays: true,
        onClick: () =>
          void trust(panel).then(() => {
            if (panel.content.widgets.every(({ model }) => model.type !== 'code' || model.trusted)) {
              notice.clear();
            }
          })
      }
    ]
  });
}

function unfinishedText(count: number, all: number): string {
  if (count === 0) return '';
  const text =
    all === 1
      ? trans.__('It was still running then.')
      : trans._n('%1 of them were still running then.', '%1 of them were still running then.', count);
  return ` ${text}`;
}

/** JupyterLab forgets the ids of displays when it restarts the kernel itself; another page or a command may do so too. */
function forgetDisplays(kernel: Kernel.IKernelConnection): void {
  const { _displayIdToParentIds: parents, _msgIdToDisplayIds: ids } = kernel as unknown as {
    readonly _displayIdToParentIds?: Map<string, unknown>;
    readonly _msgIdToDisplayIds?: Map<string, unknown>;
  };
  parents?.clear();
  ids?.clear();
}

interface IAttachPlaces {
  readonly panel: NotebookPanel;
  readonly kernel: Kernel.IKernelConnection;
  readonly mark: SavedMark;
}

/** The result, once the page has the kernel's outputs; null when the request failed. Never rejects. */
async function attach(
  { panel, kernel, mark }: IAttachPlaces,
  parts: IFollowParts,
  signal: AbortSignal
): Promise<IReattached | null> {
  const { backends, events } = parts;
  await Promise.all([panel.context.ready, panel.revealed]);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS && !signal.aborted; attempt += 1) {
    const sockets = backends.socketsOf(kernel.id, kernel.name);
    if (sockets === null) {
      return null; // a kernel of the page's own server, which stores nothing
    }
    const link = sockets.link(kernel.id, kernel.clientId);
    followWidgetStates(kernel, link);
    link.restarted = () => forgetDisplays(kernel);
    try {
      const result = await reattach({
        kernel,
        link,
        api: new OutputsApi(
          () => backends.backendOf(kernel.id)?.serverSettings ?? null,
          kernelRoute(kernel.id)
        ),
        notebook: new LabNotebook(panel, mark, parts.cellsReloaded !== undefined),
        isWatchOnly: parts.cellsReloaded !== undefined,
        trust: trustOf(kernel, backends),
        ...(parts.loadWidgets ? { loadWidgets: parts.loadWidgets } : {}),
        isAttachedElsewhere: session => events?.telemetryOf(kernel.id).client(session) != null,
        signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)])
      });
      mark.follow(kernel, { link, until: result.until }, signal);
      report(panel, { unplaced: result.unplaced, command: `tpulab outputs ${kernel.id}` }, parts);
      return result;
    } catch {
      // The bridge or the connection is lost, which the status bar shows; once it is back the request can succeed.
      await connectedAgain(kernel, signal);
    }
  }
  return null;
}

/** A remote does not decide about its own permissions here. */
function trustOf(kernel: Kernel.IKernelConnection, backends: IBridgeBackends): ITrust {
  const place = backends.routes.kernelPlace(kernel.id) ?? backends.specPlace(kernel.name);
  const remote = remoteOfPlace(place);
  return remote === null
    ? ALL_TRUSTED
    : new RequestedHere(() => backends.bridge.serverSettings, remote, kernel.id);
}

function connectedAgain(kernel: Kernel.IKernelConnection, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer);
      kernel.connectionStatusChanged.disconnect(check);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const check = (_: unknown, status: Kernel.ConnectionStatus): void => {
      if (status === 'connected') done();
    };
    const timer = setTimeout(done, 10_000);
    kernel.connectionStatusChanged.connect(check);
    signal.addEventListener('abort', done);
  });
}

function report(panel: NotebookPanel, shown: IShownUnplaced, { showUnplaced }: IFollowParts): void {
  const { unplaced } = shown;
  if (unplaced.length === 0) return;
  const document = panel.context.localPath;
  const message = unplaced.every(({ why }) => why === 'ambiguous')
    ? trans._n(
        'Output of %1 cell of "%2" could not be placed: several cells have its code, and this file keeps no cell ids.',
        'Output of %1 cells of "%2" could not be placed: several cells have their code, and this file keeps no cell ids.',
        unplaced.length,
        document
      )
    : trans._n(
        'Output of %1 cell of "%2" could not be placed: edited, deleted, or run in a console.',
        'Output of %1 cells of "%2" could not be placed: edited, deleted, or run in a console.',
        unplaced.length,
        document
      );
  showUnplaced(panel, message, shown);
}

/** Runs that others start on a kernel, for a read-only page: after each, the page reattaches. */
class OtherRuns {
  /** @param changed emitted when the cells of the page may have been updated to the executed code */
  constructor(
    kernel: Kernel.IKernelConnection,
    changed: ISignal<unknown, void>,
    private readonly signal: AbortSignal
  ) {
    const onMessage = (_: unknown, { header }: KernelMessage.IIOPubMessage): void => {
      if (header.msg_type === 'execute_input') this.note();
    };
    const onChange = (): void => this.note();
    kernel.iopubMessage.connect(onMessage);
    changed.connect(onChange);
    signal.addEventListener('abort', () => {
      kernel.iopubMessage.disconnect(onMessage);
      changed.disconnect(onChange);
    });
  }

  /** The runs begun up to now are about to be read. */
  seen(): void {
    this._isNews = false;
  }

  /** True once there is an unseen run; false at the end. */
  next(): Promise<boolean> {
    return whenever([this._changed], () => this._isNews, this.signal).then(
      () => true,
      () => false
    );
  }

  private note(): void {
    this._isNews = true;
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _isNews = false;
}
