/** A line above the cells of a notebook that reports an event, until the user has closed it or it is over. */
import type { Message } from '@lumino/messaging';
import { type BoxPanel, Widget } from '@lumino/widgets';
import { trans } from '../text/trans.js';

export interface INoticeText {
  readonly text: string;
  /** In display order; an action removes the notice unless it has `stays`. */
  readonly actions: readonly INoticeAction[];
}

export interface INoticeAction {
  readonly label: string;
  readonly stays?: boolean;
  readonly onClick: () => void;
}

/** One feature's notices above one notebook: a new notice replaces the previous one. */
export class NoticePlace {
  /** @param header header of the notebook's panel */
  constructor(private readonly header: BoxPanel) {}

  show(notice: INoticeText): void {
    this.clear();
    if (!this.header.isDisposed) {
      this._shown = new NotebookNotice(notice);
      this.header.addWidget(this._shown);
    }
  }

  clear(): void {
    this._shown?.dispose();
    this._shown = null;
  }

  private _shown: NotebookNotice | null = null;
}

class NotebookNotice extends Widget {
  constructor({ text, actions }: INoticeText) {
    super();
    this.addClass('jp-TPULabNotice');
    this._row.className = 'jp-TPULabNotice-row';
    const line = document.createElement('p');
    line.setAttribute('role', 'status');
    line.textContent = text;
    this._row.append(line);
    for (const { label, stays = false, onClick } of actions) {
      this._row.append(
        button(label, () => {
          if (!stays) this.dispose();
          onClick();
        })
      );
    }
    this._row.append(button(trans.__('Close'), () => this.dispose()));
    this.node.append(this._row);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._grow();
  }

  protected override onResize(message: Widget.ResizeMessage): void {
    super.onResize(message);
    this._grow();
  }

  /** The header gives its widgets their minimum size, and ignores text that wraps. */
  private _grow(): void {
    const height = `${this._row.offsetHeight}px`;
    if (this.node.style.minHeight !== height) {
      this.node.style.minHeight = height;
      this.parent?.fit();
    }
  }

  private readonly _row = document.createElement('div');
}

function button(label: string, onClick: () => void): HTMLButtonElement {
  const node = document.createElement('button');
  node.type = 'button';
  node.className = 'jp-TPULabButton';
  node.textContent = label;
  node.addEventListener('click', onClick);
  return node;
}
