/** `tpulab outputs`: the outputs of a kernel, printed or written into a notebook. Read from the files of the journal. */
import path from 'node:path';
import {
  type CapturedOutputs,
  type CellExecution,
  durationText,
  type NotebookOutput,
  type OutputEntry,
  type OutputsPage,
  sizeText
} from '@tpulab/protocol';
import { Command, InvalidArgumentError, Option } from 'commander';
import { kernelPaths } from '../../keeper-protocol/keeper-file.js';
import {
  DEFAULT_MAX_BYTES,
  INDEX_FILE,
  KernelOutputs,
  type OutputsRequest,
  withoutKernel
} from '../../outputs/index.js';
import { holderOf } from '@tpulab/platform/process-lock.js';
import { chosenStateFolder, type StateOptions, withMirrorOption } from '../running-gateway.js';
import { CommandError, print, type Streams } from '../output.js';
import {
  chooseKernel,
  documentsInState,
  isKernelRunning,
  kernelFolder,
  kernelsInState
} from '../kernels/choose-kernel.js';
import { NotebookFile } from './notebook-file.js';
import { outputsOf, type PlacedCell, placeOutputs, widgetsOf, withWidgetOutputs } from './place-outputs.js';

interface OutputsOptions extends StateOptions {
  readonly cell: readonly string[];
  readonly history?: true;
  readonly maxBytes: number;
  readonly into?: string;
  readonly force?: true;
  readonly dryRun?: true;
  readonly backup: boolean;
}

export function outputsCommand(
  streams: Streams & { readonly stdout: { readonly isTTY?: boolean } }
): Command {
  return withMirrorOption(new Command('outputs'))
    .description("show a kernel's outputs by cell, or write them into a notebook file")
    .argument('<kernel>', 'kernel id, a unique prefix of it, or the path of its notebook')
    .addOption(
      new Option('--cell <id>', 'only this cell; repeatable')
        .argParser((id: string, all: readonly string[]) => [...all, id])
        .default([], 'all of them')
    )
    .option('--history', 'include earlier executions of cells that were rerun')
    .option(
      '--max-bytes <number>',
      'limit for the outputs of one execution; 0 for no limit',
      parseBytes,
      DEFAULT_MAX_BYTES
    )
    .option('--into <notebook>', "write outputs into this notebook's code cells; a backup is kept beside it")
    .option('--force', 'with --into: also write into cells whose code has changed since')
    .option('--dry-run', 'with --into: only show what would be written')
    .option('--no-backup', 'with --into: keep no backup of the notebook')
    .option('--state-dir <folder>', "the server's state folder (default: the running server's)")
    .option('--json', 'print JSON')
    .action(async (requested: string, options: OutputsOptions, command: Command) => {
      const { into, force, dryRun, backup } = options;
      if (into === undefined && (force === true || dryRun === true || !backup))
        command.error('error: --force, --dry-run and --no-backup need --into <notebook>');
      const stateDir = await chosenStateFolder(options.stateDir);
      const ids = await kernelsInState(stateDir);
      const kernelId = chooseKernel(requested, ids, await documentsInState(stateDir));
      const page = await readAll(stateDir, kernelId, options);
      if (into === undefined) show(streams, options, page);
      else await writeInto(streams, options, page, into);
    });
}

/** All pages combined. The index belongs to the gateway: this reads it and never writes it. */
async function readAll(stateDir: string, kernelId: string, options: OutputsOptions): Promise<OutputsPage> {
  const folder = kernelFolder(stateDir, kernelId);
  const outputs = new KernelOutputs({
    journalDir: path.join(folder, 'journal'),
    indexFile: null,
    readIndexFrom: path.join(folder, INDEX_FILE)
  });
  const request: OutputsRequest = {
    cells: options.cell.length === 0 ? null : new Set(options.cell),
    // A notebook needs the newest run that has started, which need not be the newest request.
    history: options.history === true || options.into !== undefined,
    maxBytes: options.maxBytes === 0 ? Infinity : options.maxBytes
  };
  const alive = await isKernelRunning(stateDir, kernelId);
  // No process writes any more: damage at the end is then not an unfinished record.
  const isOver = !alive && (await holderOf(kernelPaths(folder).lock)) === null;
  const first = await outputs.read(request, null, { isOver });
  const executions = [...first.executions];
  for (let after = first.nextAfter; after !== null;) {
    const page = await outputs.read({ ...request, after }, first.until, { isOver });
    executions.push(...page.executions);
    after = page.nextAfter;
  }
  await outputs[Symbol.asyncDispose]();
  const shown = alive ? executions : executions.map(withoutKernel);
  return { kernelId, alive, ...first, executions: shown, nextAfter: null };
}

function show(
  streams: Streams & { readonly stdout: { readonly isTTY?: boolean } },
  options: OutputsOptions,
  page: OutputsPage
): void {
  const missing = options.cell.filter(id => !page.executions.some(({ cellId }) => cellId === id));
  if (missing.length > 0) {
    throw new CommandError(
      'cell_unknown',
      `Kernel ${page.kernelId} has executed no cell ${missing.map(id => `"${id}"`).join(', ')}; without --cell all are shown.`
    );
  }
  const view = { colours: streams.stdout.isTTY === true };
  const texts = [
    ...page.executions.map(execution => executionText(execution, view)),
    ...page.widgets.map(widget => widgetText(widget, view)),
    ...(page.forgotten > 0 ? [`(${page.forgotten} older executions are no longer listed)`] : [])
  ];
  print(streams, options, page, texts.length > 0 ? texts.join('\n') : 'Nothing has been executed.');
}

async function writeInto(
  streams: Streams,
  options: OutputsOptions,
  page: OutputsPage,
  into: string
): Promise<void> {
  const file = await NotebookFile.read(into);
  const placed = placeOutputs(file.notebook.codeCells, page.executions, {
    force: options.force === true,
    cells: options.cell.length === 0 ? null : new Set(options.cell)
  });
  const widgets = widgetsOf(placed, page.widgets);
  const text = withWidgetOutputs(file.notebook.withOutputs(outputsOf(placed)), widgets);
  const isSame = text === file.text;
  const backup =
    isSame || options.dryRun === true ? null : await file.replace(text, { backup: options.backup });
  const cells = placed.map(({ cell, placement, execution }) => ({
    cell: cell.id,
    index: cell.index,
    placement,
    state: execution?.state ?? null
  }));
  const result = {
    kernelId: page.kernelId,
    notebook: file.path,
    written: !isSame && options.dryRun !== true,
    backup,
    cells,
    widgets: widgets.map(({ commId }) => commId)
  };
  print(
    streams,
    options,
    result,
    summary(placed, {
      into,
      isSame,
      dryRun: options.dryRun === true,
      backup,
      widgets,
      all: page.widgets.length
    })
  );
}

interface Summary {
  readonly into: string;
  readonly isSame: boolean;
  readonly dryRun: boolean;
  readonly backup: string | null;
  readonly widgets: readonly CapturedOutputs[];
  /** How many widgets have captured output. */
  readonly all: number;
}

function summary(
  placed: readonly PlacedCell[],
  { into, isSame, dryRun, backup, widgets, all }: Summary
): string {
  const of = (placement: PlacedCell['placement']): PlacedCell[] =>
    placed.filter(each => each.placement === placement);
  const [written, changed, ambiguous] = [of('written'), of('changed'), of('ambiguous')];
  const running = written.filter(({ execution }) => execution?.state === 'running');
  const cut = written.filter(({ execution }) => (execution?.cutBytes ?? 0) > 0);
  const verb = dryRun ? 'would be written' : 'written';
  return [
    isSame
      ? `${into} already has these outputs; nothing was written.`
      : `${into}: outputs of ${count(written.length, 'cell')} ${verb}, ${count(of('not-run').length, 'cell')} not run.`,
    ...changed.map(
      ({ cell }) => `  cell ${cell.id}: its code has changed since the run; skipped (--force writes it)`
    ),
    ...ambiguous.map(
      ({ cell }) =>
        `  cell ${cell.id}: other cells have the same code, and the client that ran it named no cells; skipped`
    ),
    ...running.map(({ cell }) => `  cell ${cell.id}: still running, outputs so far`),
    ...cut.map(({ cell }) => `  cell ${cell.id}: shortened in the middle (--max-bytes 0 writes everything)`),
    ...(widgets.length > 0
      ? [`  what ${count(widgets.length, 'Output widget')} captured is in the saved state of the widgets`]
      : []),
    ...(all > widgets.length
      ? [`  ${count(all - widgets.length, 'Output widget')} captured outputs of cells that are not written`]
      : []),
    ...(backup === null ? [] : [`  the previous notebook: ${backup}`])
  ].join('\n');
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

function parseBytes(text: string): number {
  const bytes = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (!(bytes === 0 || bytes >= 1024)) throw new InvalidArgumentError('Give 0, or at least 1024.');
  return bytes;
}

interface ViewOptions {
  /** Whether colours in the output are preserved, for a terminal. */
  readonly colours: boolean;
}

function executionText(execution: CellExecution, options: ViewOptions): string {
  const { cellId, msgId, executionCount, state, outputs, gaps } = execution;
  const what = cellId === null ? `request ${msgId}` : `cell ${cellId}`;
  const parts = [what, `[${executionCount ?? ' '}]`, state, duration(execution)];
  if (gaps.length > 0) parts.push(`${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}`);
  return [`── ${parts.filter(part => part !== '').join('  ')}`, ...entryTexts(outputs, options)].join('\n');
}

function widgetText({ commId, outputs }: CapturedOutputs, options: ViewOptions): string {
  return [`── Output widget ${commId}`, ...entryTexts(outputs, options)].join('\n');
}

function entryTexts(entries: readonly OutputEntry[], options: ViewOptions): string[] {
  return entries.map(({ output }) => printable(outputText(output), options).replace(/\n$/, ''));
}

function duration({ startedAt, finishedAt }: CellExecution): string {
  if (startedAt === null || finishedAt === null) return '';
  // The reply may be recorded before the busy status that marks the start of the cell.
  return durationText(Math.max(0, Date.parse(finishedAt) - Date.parse(startedAt)));
}

function outputText(output: NotebookOutput): string {
  switch (output.output_type) {
    case 'stream':
      return output.text;
    case 'error':
      return output.traceback.length > 0 ? output.traceback.join('\n') : `${output.ename}: ${output.evalue}`;
    case 'display_data':
    case 'execute_result':
      return bundleText(output.data);
  }
}

/** The plain text, and the names of the types that a terminal cannot show. */
function bundleText(data: Readonly<Record<string, unknown>>): string {
  const { 'text/plain': plain, ...others } = data;
  const rich = Object.entries(others).map(([type, value]) => `[${type} ${sizeText(sizeOf(type, value))}]`);
  return [...(typeof plain === 'string' ? [plain] : []), ...(rich.length > 0 ? [rich.join(' ')] : [])].join(
    '\n'
  );
}

/** Images are base64 text. */
function sizeOf(type: string, value: unknown): number {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const isBinary = /^(image|audio|video)\//.test(type) && type !== 'image/svg+xml';
  return isBinary ? Buffer.from(text, 'base64').length : Buffer.byteLength(text);
}

/**
 * Output of a kernel may contain sequences that move the cursor, rename the window or worse. Only colours pass, and only to
 * a terminal.
 */
export function printable(text: string, { colours }: ViewOptions): string {
  const plain = text.replace(ESCAPES, sequence => (colours && COLOUR.test(sequence) ? sequence : ''));
  return plain.replace(CONTROLS, '');
}

const ESCAPES =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])/g;
const COLOUR = /^\x1b\[[0-9;:]*m$/;
const CONTROLS = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)/g;
