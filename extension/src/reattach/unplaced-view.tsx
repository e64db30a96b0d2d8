/** Outputs without a cell: a tab that shows them as a notebook would. */
import type { IOutput } from '@jupyterlab/nbformat';
import { OutputArea, OutputAreaModel } from '@jupyterlab/outputarea';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Panel, Widget } from '@lumino/widgets';
import type { IUnplaced } from './reattachment.js';
import { hasScriptable } from './trust.js';

export interface IUnplacedOptions {
  readonly unplaced: readonly IUnplaced[];
  readonly document: string;
  /** The terminal command that shows them. */
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
    for (const { execution, why, isTrusted } of unplaced) {
      const count = execution.executionCount ?? '*';
      const title =
        why === 'changed'
          ? trans.__('[%1] The cell was edited since', count)
          : why === 'ambiguous'
            ? trans.__('[%1] Several cells have this code, and the file keeps no cell ids', count)
            : trans.__('[%1] The cell is not in the notebook', count);
      this.addWidget(text('h3', title));
      const values = execution.outputs.map(({ output }) => output as IOutput);
      const model = new OutputAreaModel({ values, trusted: isTrusted });
      const area = new OutputArea({ model, rendermime });
      area.disposed.connect(() => model.dispose());
      if (!isTrusted && hasScriptable(execution)) this.addWidget(untrustedNote(model, trans));
      this.addWidget(area);
    }
  }
}

/** Reports that an output is shown without its scripts, until the button is pressed. */
function untrustedNote(model: OutputAreaModel, trans: TranslationBundle): Widget {
  const note = text('p', trans.__('Not requested from this computer, so shown without scripts.'));
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'jp-TPULabButton';
  button.textContent = trans.__('Trust this output');
  button.addEventListener('click', () => {
    model.trusted = true;
    note.dispose();
  });
  note.node.append(' ', button);
  return note;
}

function text(tag: 'p' | 'h3', content: string): Widget {
  const node = document.createElement(tag);
  node.textContent = content;
  return new Widget({ node });
}
