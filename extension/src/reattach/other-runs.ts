/** Runs that others start on a kernel, for a read-only page: after each, the page reattaches. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { whenever } from './kernel-waits.js';

export class OtherRuns {
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
    return whenever([this._noted], () => this._isNews, this.signal).then(
      () => true,
      () => false
    );
  }

  private note(): void {
    this._isNews = true;
    this._noted.emit();
  }

  private readonly _noted = new Signal<this, void>(this);
  private _isNews = false;
}
