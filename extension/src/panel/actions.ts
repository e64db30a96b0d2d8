/** Actions of the panel in the rest of the page: requests to runs, documents of kernels, files and pictures. */
import type { Kernel, Session } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { KernelTelemetry } from '../events/kernel-telemetry.js';
import type { Run } from '../events/run.js';
import type { MachineSource } from '../devices/machine-source.js';
import type { RemotesApi } from '../backends/remotes-api.js';
import { Preflight } from '../preflight/model.js';
import { sendCommand } from '../runs/control-client.js';
import { StoredRunList } from '../runs/stored-runs.js';
import { ControlModel } from '../runs/model.js';
import { fileName, toCsv } from '../steps/export.js';
import type { IBridgeEvents } from '../events/tokens.js';
import type { ICurrentKernel } from '../tokens.js';
import type { OpenNotebooks } from './go-to-cell.js';
import { download } from '../platform/download.js';
import { trans } from '../text/trans.js';

export interface PanelActions {
  /** Requests to the runs of a kernel; null where they cannot be sent. The same object for the same kernel. */
  controlOf(kernel: KernelTelemetry): ControlModel | null;
  /** Runs stored by the bridge of the current kernel; null where no request can be sent. */
  storedRuns(): StoredRunList | null;
  /** The check of the shown notebook; null if the gateway of this machine cannot read its file. */
  preflight(): Preflight | null;
  /** Path of a kernel's document; null where unknown. */
  documentOf(kernelId: string): string | null;
  showDocument(path: string): void;
  /** Shuts down a kernel that holds chips after a confirmation, and updates the holders. */
  release(kernelId: string, machine: MachineSource | null): void;
  /** Has libtpu's lock file removed; reports a failure. */
  removeLock(machine: MachineSource): void;
  exportSteps(run: Run): void;
}

export interface PageActionsOptions {
  readonly sessions: Pick<Session.IManager, 'running'>;
  readonly kernels: Pick<Kernel.IManager, 'shutdown'>;
  readonly openDocument: (path: string) => void;
  readonly currentKernel: ICurrentKernel;
  readonly events: IBridgeEvents;
  /** Requests to the gateway of this machine. */
  readonly api: Pick<RemotesApi, 'request'>;
  readonly notebooks: OpenNotebooks | null;
  /** Asks with a title, a text and the name of the action. */
  readonly confirm: (title: string, body: string, action: string) => Promise<boolean>;
  /** Reports a failed action, and why. */
  readonly showFailure: (title: string, why: string) => void;
}

export class PageActions implements PanelActions, IDisposable {
  constructor(private readonly _options: PageActionsOptions) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  controlOf(kernel: KernelTelemetry): ControlModel | null {
    const { current } = this._options.currentKernel;
    if (current.kind !== 'bridge' || current.kernelId !== kernel.kernelId || this._isDisposed) {
      return null;
    }
    if (this._control?.kernel !== kernel) {
      this._control?.model.dispose();
      const { backend } = current;
      const model = new ControlModel(kernel, command =>
        sendCommand({ kernelId: kernel.kernelId, settings: backend.serverSettings }, command)
      );
      this._control = { kernel, model };
    }
    return this._control.model;
  }

  storedRuns(): StoredRunList | null {
    const { current } = this._options.currentKernel;
    if (current.kind !== 'bridge' || this._isDisposed) {
      return null;
    }
    const { backend } = current;
    let list = this._stored.get(backend.id);
    if (!list) {
      list = new StoredRunList(() => backend.serverSettings);
      this._stored.set(backend.id, list);
    }
    return list;
  }

  preflight(): Preflight | null {
    const context = this._options.notebooks?.currentWidget?.context;
    // The files of other drives are elsewhere.
    const path = context?.path.replace(/^RTC:/, '') ?? '';
    if (!context || path === '' || path.includes(':') || this._isDisposed) {
      return null;
    }
    if (this._preflight?.path !== path) {
      this._preflight?.dispose();
      const save = async (): Promise<void> => {
        if (context.model.dirty) {
          await context.save();
        }
      };
      this._preflight = new Preflight({
        ...{ api: this._options.api, path, save },
        saved: context.fileChanged
      });
    }
    return this._preflight;
  }

  documentOf(kernelId: string): string | null {
    for (const session of this._options.sessions.running()) {
      if (session.kernel?.id === kernelId) {
        return session.path;
      }
    }
    return null;
  }

  showDocument(path: string): void {
    this._options.openDocument(path);
  }

  release(kernelId: string, machine: MachineSource | null): void {
    const { kernels, confirm, showFailure } = this._options;
    const document = this.documentOf(kernelId);
    const body = trans.__(
      'This shuts down its kernel. Variables are lost, output is kept. The chips are free a moment later.'
    );
    const title =
      document === null ? trans.__('Release the chips?') : trans.__('Release the chips from %1?', document);
    void confirm(title, body, trans.__('Shut down the kernel')).then(async agreed => {
      if (!agreed) {
        return;
      }
      try {
        await kernels.shutdown(kernelId);
      } catch (error) {
        showFailure(
          trans.__('The kernel was not shut down'),
          error instanceof Error ? error.message : String(error)
        );
      }
      machine?.refresh();
    });
  }

  removeLock(machine: MachineSource): void {
    const { showFailure } = this._options;
    void machine.removeLock().then(why => {
      if (why !== null) {
        showFailure(trans.__('The lock file was not removed'), why);
      }
    });
  }

  exportSteps(run: Run): void {
    download(fileName(run, 'csv'), toCsv(run), 'text/csv');
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._control?.model.dispose();
    this._control = null;
    this._preflight?.dispose();
    for (const list of this._stored.values()) {
      list.dispose();
    }
    this._stored.clear();
  }

  private readonly _stored = new Map<string, StoredRunList>();
  private _control: { readonly kernel: KernelTelemetry; readonly model: ControlModel } | null = null;
  private _preflight: Preflight | null = null;
  private _isDisposed = false;
}
