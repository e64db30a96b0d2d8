/** Follows the kernel of one notebook, and says above its cells when it went with its machine: what happened, and what can be done. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { IChangedArgs } from '@jupyterlab/coreutils';
import type { Kernel, Session } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import type { MirroredKernel } from '@tpulab/protocol';
import { remoteOfPlace, splitSpecName } from '../backends/spec-names.js';
import type { INoticeText, NoticePlace } from '../ui/notebook-notice.js';
import type { Remotes } from '../backends/remotes-model.js';
import { wait } from '../platform/wait.js';
import { whyGone, type WhyGone } from './gone.js';

export interface IGoneWatchOptions {
  readonly sessionContext: Pick<ISessionContext, 'session' | 'sessionChanged' | 'kernelChanged'>;
  readonly remotes: Pick<Remotes, 'get' | 'changed'>;
  readonly notice: Pick<NoticePlace, 'say' | 'clear'>;
  /** What this machine has kept of the kernels of a remote. */
  readonly kept: (remote: string, signal: AbortSignal) => Promise<readonly MirroredKernel[]>;
  readonly trans: TranslationBundle;
  readonly onStart: (specName: string) => void;
  readonly onChoose: () => void;
  readonly onShow: (remote: string) => void;
}

interface ILost {
  readonly kernelId: string;
  readonly specName: string;
  readonly remote: string;
}

/** The machine tells of its kernels as soon as it is connected again; somebody's shutting down is known sooner. */
const ASK_EVERY_MS = 2_000;
const ASKED_AT_MOST = 30;

export class GoneWatch implements IDisposable {
  constructor(private readonly options: IGoneWatchOptions) {
    const { sessionContext, remotes } = options;
    sessionContext.kernelChanged.connect(this.onKernel, this);
    sessionContext.sessionChanged.connect(this.onSession, this);
    remotes.changed.connect(this.onRemote, this);
    this.take(sessionContext.session?.kernel ?? null);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      const { sessionContext, remotes } = this.options;
      sessionContext.kernelChanged.disconnect(this.onKernel, this);
      sessionContext.sessionChanged.disconnect(this.onSession, this);
      remotes.changed.disconnect(this.onRemote, this);
      this._asking.abort();
    }
  }

  private onKernel(
    _: unknown,
    { newValue }: IChangedArgs<Kernel.IKernelConnection | null, Kernel.IKernelConnection | null, 'kernel'>
  ): void {
    if (newValue !== null) {
      this.take(newValue);
    }
  }

  private onSession(
    _: unknown,
    {
      newValue
    }: IChangedArgs<Session.ISessionConnection | null, Session.ISessionConnection | null, 'session'>
  ): void {
    if (newValue === null && this._kernel !== null) {
      void this.ask(this._kernel);
    }
  }

  private onRemote(_: unknown, name: string | null): void {
    const lost = this._kernel;
    if (lost !== null && name === lost.remote) {
      const why = whyGone(undefined, this.options.remotes.get(name));
      if (why !== null) {
        this.say(lost, why);
      }
    }
  }

  private take(kernel: Pick<Kernel.IKernelConnection, 'id' | 'name'> | null): void {
    this._asking.abort();
    const remote = kernel === null ? null : remoteOfPlace(splitSpecName(kernel.name).place);
    this._kernel =
      kernel === null || remote === null ? null : { kernelId: kernel.id, specName: kernel.name, remote };
    if (this._said) {
      this._said = false;
      this.options.notice.clear();
    }
  }

  /** Never rejects. */
  private async ask(lost: ILost): Promise<void> {
    this._asking.abort();
    this._asking = new AbortController();
    const { signal } = this._asking;
    for (let asked = 0; asked < ASKED_AT_MOST && !signal.aborted; asked += 1) {
      const kernels = await this.options.kept(lost.remote, signal).catch(() => []);
      const kernel = kernels.find(({ kernelId }) => kernelId === lost.kernelId);
      const why = whyGone(kernel, this.options.remotes.get(lost.remote));
      if (isOver(signal) || kernel?.wasShutDown === true) {
        return;
      }
      if (why !== null) {
        this.say(lost, why);
        return;
      }
      await wait(ASK_EVERY_MS, signal);
    }
  }

  private say(lost: ILost, why: WhyGone): void {
    if (!this._said) {
      this._said = true;
      this.options.notice.say(this.textOf(lost, why));
    }
  }

  private textOf({ remote, specName }: ILost, why: WhyGone): INoticeText {
    const { trans, onStart, onChoose, onShow } = this.options;
    const choose = { label: trans.__('Choose a kernel…'), onClick: onChoose };
    return why === 'taken'
      ? {
          text: trans.__(
            '%1 was preempted, and the kernel of this notebook with it. Its output is kept here; its variables are lost.',
            remote
          ),
          actions: [
            choose,
            { label: trans.__('Show the remote'), stays: true, onClick: () => onShow(remote) }
          ]
        }
      : {
          text: trans.__(
            'The kernel of this notebook has ended: %1 was restarted, or its processes were killed. Its output is kept here; its variables are lost.',
            remote
          ),
          actions: [{ label: trans.__('Start a new kernel'), onClick: () => onStart(specName) }, choose]
        };
  }

  private _kernel: ILost | null = null;
  private _asking = new AbortController();
  private _said = false;
  private _isDisposed = false;
}

function isOver({ aborted }: AbortSignal): boolean {
  return aborted;
}
