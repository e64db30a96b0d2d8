/** Follows the kernel of one notebook, and reports above its cells when it was lost with its machine: event and possible actions. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { IChangedArgs } from '@jupyterlab/coreutils';
import type { Kernel, Session } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { MirroredKernel, Remote } from '@tpulab/protocol';
import type { Remotes } from '../backends/remotes-model.js';
import { isSliceKernel, remoteOfPlace, splitSpecName } from '../backends/spec-names.js';
import { wait } from '../platform/wait.js';
import { momentText } from '../text/moment.js';
import type { INoticeAction, INoticeText, NoticePlace } from '../ui/notebook-notice.js';
import { type KernelOutcome, outcomeOf } from './model.js';
import { type IRunAgainOptions, RunAgain } from './run-again.js';
import { trans } from '../text/trans.js';

export interface ILostKernelWatchOptions extends IRunAgainOptions {
  readonly sessionContext: ISessionContext;
  readonly remotes: Pick<Remotes, 'get' | 'changed'>;
  readonly notice: Pick<NoticePlace, 'show' | 'clear'>;
  /** Stored data about the kernels of a remote on this machine. */
  readonly mirrored: (remote: string, signal: AbortSignal) => Promise<readonly MirroredKernel[]>;
  /** Rejects when there is no kernel; the page has then reported why. */
  readonly onStart: (specName: string) => Promise<unknown>;
  /** Undefined: kernels are chosen elsewhere in the page, where users know it. */
  readonly onChoose?: () => void;
  readonly onShow: (remote: string) => void;
}

interface ILost {
  readonly kernelId: string;
  readonly specName: string;
  readonly remote: string;
}

/** The machine reports its kernels as soon as it is connected again; a shutdown by the user is known sooner. */
const POLL_MS = 2_000;
const MAX_POLLS = 30;

export class LostKernelWatch implements IDisposable {
  constructor(private readonly options: ILostKernelWatchOptions) {
    // It must be notified of a new kernel before this object.
    this._runs = new RunAgain(options);
    const { sessionContext, remotes } = options;
    sessionContext.kernelChanged.connect(this.onKernel, this);
    sessionContext.sessionChanged.connect(this.onSession, this);
    remotes.changed.connect(this.onRemote, this);
    this.follow(sessionContext.session?.kernel ?? null);
  }

  get isDisposed(): boolean {
    return this._runs.isDisposed;
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._runs.dispose();
      const { sessionContext, remotes } = this.options;
      sessionContext.kernelChanged.disconnect(this.onKernel, this);
      sessionContext.sessionChanged.disconnect(this.onSession, this);
      remotes.changed.disconnect(this.onRemote, this);
      this._request.abort();
    }
  }

  /** The remote of the lost kernel; null: the kernel is elsewhere. */
  get remote(): string | null {
    return this._kernel?.remote ?? null;
  }

  private onKernel(
    _: unknown,
    { newValue }: IChangedArgs<Kernel.IKernelConnection | null, Kernel.IKernelConnection | null, 'kernel'>
  ): void {
    if (newValue !== null) this.follow(newValue);
  }

  private onSession(
    _: unknown,
    {
      newValue
    }: IChangedArgs<Session.ISessionConnection | null, Session.ISessionConnection | null, 'session'>
  ): void {
    if (newValue === null && this._kernel !== null) void this.poll(this._kernel);
  }

  private onRemote(_: unknown, name: string | null): void {
    const lost = this._kernel;
    if (lost === null || name !== lost.remote) return;
    const { state } = this.options.remotes.get(name) ?? {};
    if (state === 'preempted') {
      this._wasPreempted = true;
      this.set(lost, 'preempted');
    } else if (state === 'connected' && this._outcome === 'preempted') {
      void this.poll(lost);
    } else {
      this.show(lost); // hosts of a slice may be ready now
    }
  }

  private follow(kernel: Pick<Kernel.IKernelConnection, 'id' | 'name'> | null): void {
    this._request.abort();
    const remote = kernel === null ? null : remoteOfPlace(splitSpecName(kernel.name).place);
    this._kernel =
      kernel === null || remote === null ? null : { kernelId: kernel.id, specName: kernel.name, remote };
    this._wasPreempted = false;
    this.forget();
  }

  private forget(): void {
    this._outcome = null;
    this._shownText = '';
    this.options.notice.clear();
  }

  /** Never rejects. */
  private async poll(lost: ILost): Promise<void> {
    this._request.abort();
    this._request = new AbortController();
    const { signal } = this._request;
    const { mirrored, remotes, sessionContext } = this.options;
    for (let polls = 0; polls < MAX_POLLS && !signal.aborted; polls += 1) {
      const kernels = await mirrored(lost.remote, signal).catch(() => []);
      const kernel = kernels.find(({ kernelId }) => kernelId === lost.kernelId);
      if (isOver(signal) || kernel?.wasShutDown === true) return;
      const outcome = outcomeOf(kernel, remotes.get(lost.remote));
      // Until the list of sessions is up to date with the machine, nothing can be started there.
      const isListed = sessionContext.session?.kernel?.id === lost.kernelId;
      if (outcome === 'available' && isListed) {
        this.forget();
        return;
      }
      if (outcome === 'preempted' || (outcome === 'lost' && !isListed)) {
        this.set(lost, outcome);
        return;
      }
      await wait(POLL_MS, signal);
    }
  }

  private set(lost: ILost, outcome: 'preempted' | 'lost'): void {
    this._outcome = outcome;
    this.show(lost);
  }

  /** Shows the notice once, however often the remote changes, even if the user has closed it. */
  private show(lost: ILost): void {
    const notice = this.notice(lost);
    if (notice !== null && notice.text !== this._shownText) {
      this._shownText = notice.text;
      this.options.notice.show(notice);
    }
  }

  private notice(lost: ILost): INoticeText | null {
    const { remotes, onChoose, onShow } = this.options;
    const { remote, specName } = lost;
    const choose = onChoose === undefined ? [] : [{ label: trans.__('Choose a kernel…'), onClick: onChoose }];
    const show = { label: trans.__('Show the machine'), stays: true, onClick: () => onShow(remote) };
    switch (this._outcome) {
      case 'preempted':
        return {
          text: trans.__(
            '%1 was preempted, and the kernel of this notebook with it. Its output is saved on this computer; its variables are lost. When %1 is back, you can restart the kernel here.',
            remote
          ),
          actions: [...choose, show]
        };
      case 'lost': {
        const text = this.lostText(remote);
        const missing = missingHosts(specName, remotes.get(remote));
        return missing === null
          ? { text, actions: this.starts(lost) }
          : {
              text: trans.__('%1 Its kernel cannot be started yet. %2', text, missing),
              actions: [...choose, show]
            };
      }
      default:
        return null;
    }
  }

  private lostText(remote: string): string {
    const { remotes } = this.options;
    const since = remotes.get(remote)?.connectedAt ?? null;
    return this._wasPreempted && since !== null
      ? trans.__(
          '%1 was preempted and has been back since %2. The kernel of this notebook went with it: its output is saved on this computer; its variables are lost.',
          remote,
          momentText(since, Date.now())
        )
      : trans.__(
          'The kernel of this notebook has ended: %1 was restarted or recreated, or its processes were killed. Its output is saved on this computer; its variables are lost.',
          remote
        );
  }

  private starts(lost: ILost): INoticeAction[] {
    const last = this._runs.begun.at(-1);
    const start = {
      label: trans.__('Start the kernel again'),
      onClick: () => void this.start(lost, start => start())
    };
    return last === undefined
      ? [start]
      : [
          {
            label: trans.__('Restart and rerun'),
            onClick: () => void this.start(lost, start => this._runs.from(last, start))
          },
          start
        ];
  }

  /** Never rejects. Without a kernel, it is offered again. */
  private async start(lost: ILost, run: (start: () => Promise<unknown>) => Promise<unknown>): Promise<void> {
    const { notice, onStart } = this.options;
    notice.clear();
    try {
      await run(() => onStart(lost.specName));
    } catch {
      // A failed start has been reported.
    }
    if (this._kernel === lost && !this.isDisposed) {
      this._shownText = '';
      this.show(lost);
    }
  }

  private readonly _runs: RunAgain;
  private _kernel: ILost | null = null;
  private _outcome: KernelOutcome | null = null;
  /** This page has seen that the machine of this kernel was preempted. */
  private _wasPreempted = false;
  private _shownText = '';
  private _request = new AbortController();
}

function isOver({ aborted }: AbortSignal): boolean {
  return aborted;
}

/** The bridge's report on a slice whose hosts are not all ready; null: they are, or the kernel needs none. */
function missingHosts(specName: string, remote: Remote | null): string | null {
  const check = isSliceKernel(specName) ? remote?.checks.find(({ name }) => name === 'slice') : undefined;
  return check === undefined || check.state === 'ok' ? null : check.message;
}
