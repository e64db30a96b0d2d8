/** Mouse controls at the cells of a notebook: a run or stop button at each code cell, and a button for a new cell after each cell. */
import { CellFooter, type ICellFooter, type IInputPrompt, InputPrompt } from '@jupyterlab/cells';
import { type Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { addIcon, runIcon, stopIcon } from '@jupyterlab/ui-components';
import { trans } from '../text.js';

const RUN = 'tpl-RunCell';
const ADD = 'tpl-AddCell';

/** Keys do the same, so the tab key skips the buttons of a cell. */
function button(name: string, label: string): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.tabIndex = -1;
  made.className = name;
  made.title = label;
  made.ariaLabel = label;
  return made;
}

class RunPrompt extends InputPrompt {
  override get executionCount(): string | null {
    return super.executionCount;
  }

  override set executionCount(value: string | null) {
    super.executionCount = value;
    this.node.append(this.button);
  }

  private readonly button = ((): HTMLButtonElement => {
    const made = button(RUN, trans.__('Run this cell, or stop it'));
    made.append(
      runIcon.element({ className: 'tpl-RunCell-run', tag: 'span' }),
      stopIcon.element({ className: 'tpl-RunCell-stop', tag: 'span' })
    );
    this.node.append(made);
    return made;
  })();
}

class AddFooter extends CellFooter {
  constructor() {
    super();
    const types = { code: trans.__('Code'), markdown: trans.__('Text') };
    for (const [type, label] of Object.entries(types)) {
      const made = button(ADD, trans.__('Add a cell after this one: %1', label));
      made.dataset['cellType'] = type;
      made.append(addIcon.element({ tag: 'span' }), label);
      this.node.append(made);
    }
  }
}

export class ButtonsContentFactory extends NotebookPanel.ContentFactory {
  override createInputPrompt(): IInputPrompt {
    return new RunPrompt();
  }

  override createCellFooter(): ICellFooter {
    return new AddFooter();
  }
}

/** Handles clicks on the buttons of all cells. `onStop` interrupts the kernel. */
export function followCellButtons({ content, sessionContext }: NotebookPanel, onStop: () => void): void {
  content.node.addEventListener('click', ({ target }) => {
    const clicked = target instanceof Element ? target.closest<HTMLElement>(`.${RUN}, .${ADD}`) : null;
    const at = clicked === null ? -1 : content.widgets.findIndex(({ node }) => node.contains(clicked));
    if (clicked === null || at < 0) return;
    if (clicked.matches(`.${ADD}`)) {
      addCell(content, at, clicked.dataset['cellType'] ?? 'code');
    } else if (clicked.closest('[data-tpl-state="running"]')) {
      onStop();
    } else {
      choose(content, at);
      void NotebookActions.run(content, sessionContext);
    }
  });
}

function addCell(notebook: Notebook, after: number, type: string): void {
  // The user creates it here, so it is trusted.
  const metadata = type === 'code' ? { trusted: true } : {};
  notebook.model?.sharedModel.insertCell(after + 1, { cell_type: type, metadata });
  choose(notebook, after + 1);
  notebook.mode = 'edit';
}

function choose(notebook: Notebook, at: number): void {
  notebook.deselectAll();
  notebook.activeCellIndex = at;
}
