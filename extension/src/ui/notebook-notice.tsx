/** A line above the cells of a notebook that says what has happened to it, until somebody has read it or it is over. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { type BoxPanel, Widget } from '@lumino/widgets';

export interface INoticeText {
  readonly text: string;
  /** In the order in which they are shown; the notice goes away with any of them that says so. */
  readonly actions: readonly INoticeAction[];
}

export interface INoticeAction {
  readonly label: string;
  readonly stays?: boolean;
  readonly onClick: () => void;
}

/** Where one feature speaks above one notebook: what it says takes the place of what it has said before. */
export class NoticePlace {
  /** @param header that of the notebook's panel */
  constructor(
    private readonly header: BoxPanel,
    private readonly trans: TranslationBundle
  ) {}

  show(notice: INoticeText): void {
    this.clear();
    if (!this.header.isDisposed) {
      this._shown = new NotebookNotice(notice, this.trans);
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
  constructor({ text, actions }: INoticeText, trans: TranslationBundle) {
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
          if (!stays) {
            this.dispose();
          }
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

  /** The header gives its widgets what they need at least, and knows nothing of text that wraps. */
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
