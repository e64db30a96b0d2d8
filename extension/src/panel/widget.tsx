/** The side panel as a widget: draws only while it is on the screen. */
import type { JSX } from 'react';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { PanelView, type PanelViewProps } from './view.js';

export class PanelWidget extends ReactWidget {
  constructor(private readonly _props: PanelViewProps) {
    super();
    this.addClass('jp-TPULabPanel');
    this._onPageVisibility = () => this._update();
    document.addEventListener('visibilitychange', this._onPageVisibility);
  }

  protected override render(): JSX.Element {
    return <PanelView {...this._props} />;
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    document.removeEventListener('visibilitychange', this._onPageVisibility);
    this._props.state.paused = true;
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._update();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._update();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._update();
  }

  protected override onBeforeDetach(message: Message): void {
    this._props.state.paused = true;
    super.onBeforeDetach(message);
  }

  private _update(): void {
    this._props.state.paused = !this.isVisible || document.hidden;
    if (!this._props.state.paused) {
      this._props.loop.wake();
    }
  }

  private readonly _onPageVisibility: () => void;
}
