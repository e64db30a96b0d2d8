/** Outputs that have no cell to stand in: a tab that shows them as a notebook would. */
import type { IOutput } from '@jupyterlab/nbformat';
import { OutputArea, OutputAreaModel } from '@jupyterlab/outputarea';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Panel, Widget } from '@lumino/widgets';
import type { IUnplaced } from './reattachment.js';

export interface IUnplacedOptions {
  readonly unplaced: readonly IUnplaced[];
  readonly document: string;
  /** That shows them at a terminal. */
  readonly command: string;
  readonly rendermime: IRenderMimeRegistry;
  readonly trans: TranslationBundle;
}

export class UnplacedOutputs extends Panel {
  constructor({ unplaced, document, command, rendermime, trans }: IUnplacedOptions) {
    super();
    this.addClass('jp-TPULabUnplaced');
    this.addWidget(
      text(
        'p',
        trans.__(
          'These outputs of "%1" are not in the notebook. They stay in the journal of the kernel: %2',
          document,
          command
        )
      )
    );
    for (const { execution, why } of unplaced) {
      const count = execution.executionCount ?? '*';
      const title =
        why === 'changed'
          ? trans.__('[%1] The code of the cell was changed since', count)
          : trans.__('[%1] The cell is not in the notebook', count);
      this.addWidget(text('h3', title));
      const values = execution.outputs.map(({ output }) => output as IOutput);
      // As trusted as the outputs of a cell that was just run: the person's own kernel made them.
      const model = new OutputAreaModel({ values, trusted: true });
      const area = new OutputArea({ model, rendermime });
      area.disposed.connect(() => model.dispose());
      this.addWidget(area);
    }
  }
}

function text(tag: 'p' | 'h3', content: string): Widget {
  const node = document.createElement(tag);
  node.textContent = content;
  return new Widget({ node });
}
