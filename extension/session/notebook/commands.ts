/** The commands of a notebook, with the ids and the keys that they have in JupyterLab. */
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { ISessionContext } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import type { CommandRegistry } from '@lumino/commands';
import {
  addAboveIcon,
  addBelowIcon,
  copyIcon,
  deleteIcon,
  type LabIcon,
  moveDownIcon,
  moveUpIcon
} from '@jupyterlab/ui-components';
import { trans } from '../text.js';

/** Cells are chosen, not written in. */
const COMMAND_MODE = '.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus';
const EDIT_MODE = '.jp-Notebook.jp-mod-editMode';
const ANY_MODE = 'body';

/** As `tpulab execute` and nbclient do: without the cells that are tagged skip-execution. Each can still be run by itself. */
export function runAll(notebook: Notebook, sessionContext: ISessionContext): Promise<boolean> {
  const cells = notebook.widgets.filter(
    ({ model }) => (model.getMetadata('tags') as unknown[] | undefined)?.includes('skip-execution') !== true
  );
  return NotebookActions.runCells(notebook, cells, sessionContext);
}

/** Groups of the palette. */
const RUN = trans.__('Run');
const EDIT = trans.__('Edit');

export interface NotebookCommand {
  readonly id: string;
  readonly label: string;
  /** Of the palette; none: it is not in it. */
  readonly group?: string;
  readonly icon?: LabIcon;
  /** It writes or runs, which a reader may not. */
  readonly isChange: boolean;
  readonly keys?: readonly (readonly [selector: string, ...keys: string[]])[];
  readonly execute: (notebook: Notebook, panel: NotebookPanel) => unknown;
}

const change = (
  id: string,
  label: string,
  keys: NotebookCommand['keys'],
  execute: NotebookCommand['execute'],
  more: Partial<NotebookCommand> = {}
): NotebookCommand => ({ id, label, isChange: true, ...(keys && { keys }), execute, ...more });
const look = (...of: Parameters<typeof change>): NotebookCommand => ({ ...change(...of), isChange: false });

export const NOTEBOOK_COMMANDS: readonly NotebookCommand[] = [
  change(
    'notebook:run-cell-and-select-next',
    trans.__('Run cell and select next'),
    [
      [COMMAND_MODE, 'Shift Enter'],
      [EDIT_MODE, 'Shift Enter']
    ],
    (notebook, { sessionContext }) => NotebookActions.runAndAdvance(notebook, sessionContext),
    { group: RUN }
  ),
  change(
    'notebook:run-cell',
    trans.__('Run selected cells'),
    [
      [COMMAND_MODE, 'Accel Enter'],
      [EDIT_MODE, 'Accel Enter']
    ],
    (notebook, { sessionContext }) => NotebookActions.run(notebook, sessionContext),
    { group: RUN }
  ),
  change(
    'notebook:run-cell-and-insert-below',
    trans.__('Run cell and insert below'),
    [
      [COMMAND_MODE, 'Alt Enter'],
      [EDIT_MODE, 'Alt Enter']
    ],
    (notebook, { sessionContext }) => NotebookActions.runAndInsert(notebook, sessionContext),
    { group: RUN }
  ),
  change(
    'notebook:run-all-cells',
    trans.__('Run all cells'),
    [[ANY_MODE, 'Accel F9']],
    (notebook, { sessionContext }) => runAll(notebook, sessionContext),
    { group: RUN }
  ),
  change(
    'notebook:run-all-above',
    trans.__('Run all above the selected cell'),
    [[ANY_MODE, 'Accel F8']],
    (notebook, { sessionContext }) => NotebookActions.runAllAbove(notebook, sessionContext),
    { group: RUN }
  ),
  change(
    'notebook:run-all-below',
    trans.__('Run this cell and all below'),
    [[ANY_MODE, 'Accel F10']],
    (notebook, { sessionContext }) => NotebookActions.runAllBelow(notebook, sessionContext),
    { group: RUN }
  ),
  look(
    'notebook:enter-command-mode',
    trans.__('Enter command mode'),
    [
      [EDIT_MODE, 'Escape'],
      [EDIT_MODE, 'Ctrl M']
    ],
    notebook => {
      notebook.mode = 'command';
    }
  ),
  look(
    'notebook:enter-edit-mode',
    trans.__('Enter edit mode'),
    [['.jp-Notebook.jp-mod-commandMode .jp-Cell:focus', 'Enter']],
    notebook => {
      notebook.mode = 'edit';
    }
  ),
  look(
    'notebook:move-cursor-down',
    trans.__('Select the cell below'),
    [
      [COMMAND_MODE, 'ArrowDown'],
      [COMMAND_MODE, 'J']
    ],
    notebook => NotebookActions.selectBelow(notebook)
  ),
  look(
    'notebook:move-cursor-up',
    trans.__('Select the cell above'),
    [
      [COMMAND_MODE, 'ArrowUp'],
      [COMMAND_MODE, 'K']
    ],
    notebook => NotebookActions.selectAbove(notebook)
  ),
  look(
    'notebook:extend-marked-cells-below',
    trans.__('Extend the selection below'),
    [
      [COMMAND_MODE, 'Shift ArrowDown'],
      [COMMAND_MODE, 'Shift J']
    ],
    notebook => NotebookActions.extendSelectionBelow(notebook)
  ),
  look(
    'notebook:extend-marked-cells-above',
    trans.__('Extend the selection above'),
    [
      [COMMAND_MODE, 'Shift ArrowUp'],
      [COMMAND_MODE, 'Shift K']
    ],
    notebook => NotebookActions.extendSelectionAbove(notebook)
  ),
  look('notebook:select-all', trans.__('Select all cells'), [[COMMAND_MODE, 'Accel A']], notebook =>
    NotebookActions.selectAll(notebook)
  ),
  change(
    'notebook:insert-cell-above',
    trans.__('Insert cell above'),
    [[COMMAND_MODE, 'A']],
    notebook => NotebookActions.insertAbove(notebook),
    { group: EDIT, icon: addAboveIcon }
  ),
  change(
    'notebook:insert-cell-below',
    trans.__('Insert cell below'),
    [[COMMAND_MODE, 'B']],
    notebook => NotebookActions.insertBelow(notebook),
    { group: EDIT, icon: addBelowIcon }
  ),
  change(
    'notebook:duplicate-below',
    trans.__('Duplicate cells'),
    undefined,
    notebook => NotebookActions.duplicate(notebook, 'belowSelected'),
    {
      group: EDIT,
      icon: copyIcon
    }
  ),
  change(
    'notebook:move-cell-up',
    trans.__('Move cells up'),
    [[COMMAND_MODE, 'Ctrl Shift ArrowUp']],
    notebook => NotebookActions.moveUp(notebook),
    {
      group: EDIT,
      icon: moveUpIcon
    }
  ),
  change(
    'notebook:move-cell-down',
    trans.__('Move cells down'),
    [[COMMAND_MODE, 'Ctrl Shift ArrowDown']],
    notebook => NotebookActions.moveDown(notebook),
    {
      group: EDIT,
      icon: moveDownIcon
    }
  ),
  change(
    'notebook:delete-cell',
    trans.__('Delete cells'),
    [[COMMAND_MODE, 'D', 'D']],
    notebook => NotebookActions.deleteCells(notebook),
    {
      group: EDIT,
      icon: deleteIcon
    }
  ),
  change(
    'notebook:cut-cell',
    trans.__('Cut cells'),
    [[COMMAND_MODE, 'X']],
    notebook => NotebookActions.cut(notebook),
    {
      group: EDIT
    }
  ),
  look(
    'notebook:copy-cell',
    trans.__('Copy cells'),
    [[COMMAND_MODE, 'C']],
    notebook => NotebookActions.copy(notebook),
    { group: EDIT }
  ),
  change(
    'notebook:paste-cell-below',
    trans.__('Paste cells below'),
    [[COMMAND_MODE, 'V']],
    notebook => NotebookActions.paste(notebook),
    {
      group: EDIT
    }
  ),
  change(
    'notebook:undo-cell-action',
    trans.__('Undo cell change'),
    [[COMMAND_MODE, 'Z']],
    notebook => NotebookActions.undo(notebook),
    {
      group: EDIT
    }
  ),
  change(
    'notebook:redo-cell-action',
    trans.__('Redo cell change'),
    [[COMMAND_MODE, 'Shift Z']],
    notebook => NotebookActions.redo(notebook),
    {
      group: EDIT
    }
  ),
  change('editmenu:undo', trans.__('Undo in the cell'), [[EDIT_MODE, 'Accel Z']], notebook =>
    notebook.activeCell?.editor?.undo()
  ),
  change('editmenu:redo', trans.__('Redo in the cell'), [[EDIT_MODE, 'Accel Shift Z']], notebook =>
    notebook.activeCell?.editor?.redo()
  ),
  change(
    'notebook:split-cell-at-cursor',
    trans.__('Split cell'),
    [[EDIT_MODE, 'Ctrl Shift -']],
    notebook => NotebookActions.splitCell(notebook),
    {
      group: EDIT
    }
  ),
  change(
    'notebook:merge-cells',
    trans.__('Merge cells'),
    [[COMMAND_MODE, 'Shift M']],
    notebook => NotebookActions.mergeCells(notebook),
    {
      group: EDIT
    }
  ),
  change(
    'notebook:change-cell-to-code',
    trans.__('Change to code'),
    [[COMMAND_MODE, 'Y']],
    notebook => NotebookActions.changeCellType(notebook, 'code'),
    {
      group: EDIT
    }
  ),
  change(
    'notebook:change-cell-to-markdown',
    trans.__('Change to Markdown'),
    [[COMMAND_MODE, 'M']],
    notebook => NotebookActions.changeCellType(notebook, 'markdown'),
    { group: EDIT }
  ),
  change('notebook:change-cell-to-raw', trans.__('Change to raw'), [[COMMAND_MODE, 'R']], notebook =>
    NotebookActions.changeCellType(notebook, 'raw')
  ),
  ...[1, 2, 3, 4, 5, 6].map(level =>
    change(
      `notebook:change-cell-to-heading-${level}`,
      trans.__('Change to heading %1', level),
      [[COMMAND_MODE.replace(':focus', '.jp-MarkdownCell:focus'), String(level)]],
      notebook => NotebookActions.setMarkdownHeader(notebook, level)
    )
  ),
  change(
    'notebook:clear-cell-output',
    trans.__('Clear outputs'),
    undefined,
    notebook => NotebookActions.clearOutputs(notebook),
    { group: EDIT }
  ),
  change(
    'notebook:clear-all-cell-outputs',
    trans.__('Clear all outputs'),
    undefined,
    notebook => NotebookActions.clearAllOutputs(notebook),
    {
      group: EDIT
    }
  ),
  look(
    'viewmenu:line-numbering',
    trans.__('Show or hide line numbers'),
    [[COMMAND_MODE, 'Shift L']],
    notebook => NotebookActions.toggleAllLineNumbers(notebook),
    { group: trans.__('View') }
  ),
  look(
    'notebook:collapse-all-headings',
    trans.__('Collapse all headings'),
    [[COMMAND_MODE, 'Ctrl Shift ArrowLeft']],
    notebook => NotebookActions.collapseAllHeadings(notebook),
    { group: trans.__('View') }
  ),
  look(
    'notebook:expand-all-headings',
    trans.__('Expand all headings'),
    [[COMMAND_MODE, 'Ctrl Shift ArrowRight']],
    notebook => NotebookActions.expandAllHeadings(notebook),
    { group: trans.__('View') }
  ),
  look(
    'notebook:toggle-output-scrolling',
    trans.__('Toggle output scrolling'),
    [[COMMAND_MODE, 'S']],
    notebook => {
      const isScrolled = notebook.activeCell instanceof CodeCell && notebook.activeCell.outputsScrolled;
      (isScrolled ? NotebookActions.disableOutputScrolling : NotebookActions.enableOutputScrolling)(notebook);
    },
    { group: trans.__('View') }
  ),
  look(
    'notebook:toggle-output',
    trans.__('Fold or unfold output'),
    [[COMMAND_MODE, 'O']],
    notebook => NotebookActions.toggleOutput(notebook),
    {
      group: trans.__('View')
    }
  ),
  change(
    'notebook:trust',
    trans.__('Trust this notebook…'),
    undefined,
    notebook => NotebookActions.trust(notebook),
    {
      group: trans.__('View')
    }
  )
];

/** Keys as Colab has them, beside JupyterLab's: `Ctrl M` and a letter. */
export const COLAB_KEYS: readonly (readonly [command: string, ...keys: string[]])[] = [
  ['notebook:insert-cell-above', 'Ctrl M', 'A'],
  ['notebook:insert-cell-below', 'Ctrl M', 'B'],
  ['notebook:delete-cell', 'Ctrl M', 'D'],
  ['notebook:change-cell-to-markdown', 'Ctrl M', 'M'],
  ['notebook:change-cell-to-code', 'Ctrl M', 'Y'],
  ['notebook:undo-cell-action', 'Ctrl M', 'Z'],
  ['notebook:move-cell-up', 'Ctrl M', 'K'],
  ['notebook:move-cell-down', 'Ctrl M', 'J'],
  ['notebook:split-cell-at-cursor', 'Ctrl M', '-']
];

export interface CommandParts {
  readonly panel: NotebookPanel;
  readonly isReadOnly: boolean;
  readonly keyboard: 'jupyterlab' | 'colab';
}

export function addNotebookCommands(
  commands: CommandRegistry,
  { panel, isReadOnly, keyboard }: CommandParts
): void {
  for (const { id, label, icon, isChange, keys = [], execute } of NOTEBOOK_COMMANDS) {
    commands.addCommand(id, {
      label,
      caption: label,
      ...(icon && { icon }),
      isEnabled: () => !(isReadOnly && isChange) && !panel.isDisposed,
      isVisible: () => !(isReadOnly && isChange),
      execute: () => execute(panel.content, panel)
    });
    for (const [selector, ...sequence] of keys) {
      // Colab's begins with what is Escape in JupyterLab's.
      if (keyboard === 'colab' && sequence[0] === 'Ctrl M') {
        continue;
      }
      commands.addKeyBinding({ command: id, selector, keys: sequence });
    }
  }
  if (keyboard === 'colab') {
    for (const [command, ...keys] of COLAB_KEYS) {
      commands.addKeyBinding({ command, selector: '.jp-Notebook', keys });
    }
  }
}
