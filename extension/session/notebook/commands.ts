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

/** Cells are selected, not edited. */
const COMMAND_MODE = '.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus';
const EDIT_MODE = '.jp-Notebook.jp-mod-editMode';
const ANY_MODE = 'body';

/** Skips cells tagged skip-execution, like `tpulab execute` and nbclient. Each of them can still be run alone. */
export function runAll(notebook: Notebook, sessionContext: ISessionContext): Promise<boolean> {
  const cells = notebook.widgets.filter(
    ({ model }) => (model.getMetadata('tags') as unknown[] | undefined)?.includes('skip-execution') !== true
  );
  return NotebookActions.runCells(notebook, cells, sessionContext);
}

/** Groups of the palette. */
const RUN = trans.__('Run');
const EDIT = trans.__('Edit');
const VIEW = trans.__('View');

interface NotebookCommand {
  readonly id: string;
  readonly label: string;
  /** Group in the palette; undefined: not in the palette. */
  readonly group?: string;
  readonly icon?: LabIcon;
  /** The command writes or runs, which a reader may not do. */
  readonly isChange: boolean;
  readonly keys: readonly (readonly [selector: string, ...keys: string[]])[];
  readonly execute: (notebook: Notebook, panel: NotebookPanel) => unknown;
}

type Keys = NonNullable<NotebookCommand['keys']>;
type Act = (notebook: Notebook) => unknown;

const pressed = (...keys: readonly string[]): Keys => keys.map(key => [COMMAND_MODE, ...key.split(', ')]);
const inEditor = (...keys: readonly string[]): Keys => keys.map(key => [EDIT_MODE, key]);
const anywhere = (key: string): Keys => [[ANY_MODE, key]];

const change = (
  id: string,
  label: string,
  keys: Keys,
  execute: NotebookCommand['execute']
): NotebookCommand => ({
  ...{ id, label, keys, execute, isChange: true }
});
// Some actions have a second parameter of another type.
const viewCommand = (id: string, label: string, keys: Keys, execute: Act): NotebookCommand => ({
  ...{ id, label, keys, execute: notebook => execute(notebook), isChange: false }
});
const run = (
  id: string,
  label: string,
  keys: Keys,
  act: (notebook: Notebook, sessionContext: ISessionContext) => unknown
): NotebookCommand => ({
  ...change(id, label, keys, (notebook, { sessionContext }) => act(notebook, sessionContext)),
  group: RUN
});
const edit = (id: string, label: string, keys: Keys, execute: Act, icon?: LabIcon): NotebookCommand => ({
  ...viewCommand(id, label, keys, execute),
  ...{ isChange: true, group: EDIT, ...(icon && { icon }) }
});
const view = (...of: Parameters<typeof viewCommand>): NotebookCommand => ({
  ...viewCommand(...of),
  group: VIEW
});

const Actions = NotebookActions;

export const NOTEBOOK_COMMANDS: readonly NotebookCommand[] = [
  run(
    'notebook:run-cell-and-select-next',
    trans.__('Run cell and select next'),
    [...pressed('Shift Enter'), ...inEditor('Shift Enter')],
    Actions.runAndAdvance
  ),
  run(
    'notebook:run-cell',
    trans.__('Run selected cells'),
    [...pressed('Accel Enter'), ...inEditor('Accel Enter')],
    Actions.run
  ),
  run(
    'notebook:run-cell-and-insert-below',
    trans.__('Run cell and insert below'),
    [...pressed('Alt Enter'), ...inEditor('Alt Enter')],
    Actions.runAndInsert
  ),
  run('notebook:run-all-cells', trans.__('Run all cells'), anywhere('Accel F9'), runAll),
  run(
    'notebook:run-all-above',
    trans.__('Run all above the selected cell'),
    anywhere('Accel F8'),
    Actions.runAllAbove
  ),
  run(
    'notebook:run-all-below',
    trans.__('Run this cell and all below'),
    anywhere('Accel F10'),
    Actions.runAllBelow
  ),
  viewCommand(
    'notebook:enter-command-mode',
    trans.__('Enter command mode'),
    inEditor('Escape', 'Ctrl M'),
    notebook => {
      notebook.mode = 'command';
    }
  ),
  viewCommand(
    'notebook:enter-edit-mode',
    trans.__('Enter edit mode'),
    [['.jp-Notebook.jp-mod-commandMode .jp-Cell:focus', 'Enter']],
    notebook => {
      notebook.mode = 'edit';
    }
  ),
  viewCommand(
    'notebook:move-cursor-down',
    trans.__('Select the cell below'),
    pressed('ArrowDown', 'J'),
    Actions.selectBelow
  ),
  viewCommand(
    'notebook:move-cursor-up',
    trans.__('Select the cell above'),
    pressed('ArrowUp', 'K'),
    Actions.selectAbove
  ),
  viewCommand(
    'notebook:extend-marked-cells-below',
    trans.__('Extend the selection below'),
    pressed('Shift ArrowDown', 'Shift J'),
    notebook => Actions.extendSelectionBelow(notebook)
  ),
  viewCommand(
    'notebook:extend-marked-cells-above',
    trans.__('Extend the selection above'),
    pressed('Shift ArrowUp', 'Shift K'),
    notebook => Actions.extendSelectionAbove(notebook)
  ),
  viewCommand('notebook:select-all', trans.__('Select all cells'), pressed('Accel A'), Actions.selectAll),
  edit(
    'notebook:insert-cell-above',
    trans.__('Insert cell above'),
    pressed('A'),
    Actions.insertAbove,
    addAboveIcon
  ),
  edit(
    'notebook:insert-cell-below',
    trans.__('Insert cell below'),
    pressed('B'),
    Actions.insertBelow,
    addBelowIcon
  ),
  edit(
    'notebook:duplicate-below',
    trans.__('Duplicate cells'),
    [],
    notebook => Actions.duplicate(notebook, 'belowSelected'),
    copyIcon
  ),
  edit(
    'notebook:move-cell-up',
    trans.__('Move cells up'),
    pressed('Ctrl Shift ArrowUp'),
    Actions.moveUp,
    moveUpIcon
  ),
  edit(
    'notebook:move-cell-down',
    trans.__('Move cells down'),
    pressed('Ctrl Shift ArrowDown'),
    Actions.moveDown,
    moveDownIcon
  ),
  edit('notebook:delete-cell', trans.__('Delete cells'), pressed('D, D'), Actions.deleteCells, deleteIcon),
  edit('notebook:cut-cell', trans.__('Cut cells'), pressed('X'), Actions.cut),
  { ...viewCommand('notebook:copy-cell', trans.__('Copy cells'), pressed('C'), Actions.copy), group: EDIT },
  edit('notebook:paste-cell-below', trans.__('Paste cells below'), pressed('V'), notebook =>
    Actions.paste(notebook)
  ),
  edit('notebook:undo-cell-action', trans.__('Undo cell change'), pressed('Z'), Actions.undo),
  edit('notebook:redo-cell-action', trans.__('Redo cell change'), pressed('Shift Z'), Actions.redo),
  change('editmenu:undo', trans.__('Undo in the cell'), inEditor('Accel Z'), notebook =>
    notebook.activeCell?.editor?.undo()
  ),
  change('editmenu:redo', trans.__('Redo in the cell'), inEditor('Accel Shift Z'), notebook =>
    notebook.activeCell?.editor?.redo()
  ),
  edit('notebook:split-cell-at-cursor', trans.__('Split cell'), inEditor('Ctrl Shift -'), Actions.splitCell),
  edit('notebook:merge-cells', trans.__('Merge cells'), pressed('Shift M'), notebook =>
    Actions.mergeCells(notebook)
  ),
  edit('notebook:change-cell-to-code', trans.__('Change to code'), pressed('Y'), notebook =>
    Actions.changeCellType(notebook, 'code')
  ),
  edit('notebook:change-cell-to-markdown', trans.__('Change to Markdown'), pressed('M'), notebook =>
    Actions.changeCellType(notebook, 'markdown')
  ),
  change('notebook:change-cell-to-raw', trans.__('Change to raw'), pressed('R'), notebook =>
    Actions.changeCellType(notebook, 'raw')
  ),
  ...[1, 2, 3, 4, 5, 6].map(level =>
    change(
      `notebook:change-cell-to-heading-${level}`,
      trans.__('Change to heading %1', level),
      [[COMMAND_MODE.replace(':focus', '.jp-MarkdownCell:focus'), String(level)]],
      notebook => Actions.setMarkdownHeader(notebook, level)
    )
  ),
  edit('notebook:clear-cell-output', trans.__('Clear outputs'), [], Actions.clearOutputs),
  edit('notebook:clear-all-cell-outputs', trans.__('Clear all outputs'), [], Actions.clearAllOutputs),
  view(
    'viewmenu:line-numbering',
    trans.__('Show or hide line numbers'),
    pressed('Shift L'),
    Actions.toggleAllLineNumbers
  ),
  view(
    'notebook:collapse-all-headings',
    trans.__('Collapse all headings'),
    pressed('Ctrl Shift ArrowLeft'),
    Actions.collapseAllHeadings
  ),
  view(
    'notebook:expand-all-headings',
    trans.__('Expand all headings'),
    pressed('Ctrl Shift ArrowRight'),
    Actions.expandAllHeadings
  ),
  view('notebook:toggle-output-scrolling', trans.__('Toggle output scrolling'), pressed('S'), notebook => {
    const isScrolled = notebook.activeCell instanceof CodeCell && notebook.activeCell.outputsScrolled;
    (isScrolled ? Actions.disableOutputScrolling : Actions.enableOutputScrolling)(notebook);
  }),
  view('notebook:toggle-output', trans.__('Fold or unfold output'), pressed('O'), Actions.toggleOutput),
  {
    ...view('notebook:trust', trans.__('Trust this notebook…'), [], notebook => Actions.trust(notebook)),
    isChange: true
  }
];

/** Colab's keys, in addition to JupyterLab's: `Ctrl M` and a letter. */
const COLAB_KEYS: readonly (readonly [command: string, ...keys: string[]])[] = [
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
  for (const { id, label, icon, isChange, keys, execute } of NOTEBOOK_COMMANDS) {
    commands.addCommand(id, {
      label,
      caption: label,
      ...(icon && { icon }),
      isEnabled: () => !(isReadOnly && isChange) && !panel.isDisposed,
      isVisible: () => !(isReadOnly && isChange),
      execute: () => execute(panel.content, panel)
    });
    for (const [selector, ...sequence] of keys) {
      // Colab's sequences begin with Ctrl M, which is Escape in JupyterLab's.
      if (keyboard === 'colab' && sequence[0] === 'Ctrl M') continue;
      commands.addKeyBinding({ command: id, selector, keys: sequence });
    }
  }
  if (keyboard === 'colab') {
    for (const [command, ...keys] of COLAB_KEYS) {
      commands.addKeyBinding({ command, selector: '.jp-Notebook', keys });
    }
  }
}
