/** Runs that others start on a kernel, for a page that only looks on: after each, there is something to reattach to. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { whenever } from './kernel-waits.js';

export class OtherRuns {
  /** @param changed emitted when the cells of the page may have become those that were run */
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

  /** What has begun up to now is about to be read. */
  seen(): void {
    this._isNews = false;
  }

  /** True once there is one that was not seen; false at the end. */
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
