/** Outputs as text for a terminal. */
import type { CapturedOutputs, CellExecution, NotebookOutput, OutputEntry } from '@tpulab/protocol';
import { sizeInWords } from '../../outputs/index.js';

export interface ViewOptions {
  /** Colours of the output are kept; for a terminal. */
  readonly colours: boolean;
}

export function executionText(execution: CellExecution, options: ViewOptions): string {
  const { cellId, msgId, executionCount, state, outputs, gaps } = execution;
  const what = cellId === null ? `request ${msgId}` : `cell ${cellId}`;
  const parts = [what, `[${executionCount ?? ' '}]`, state, duration(execution)];
  if (gaps.length > 0) parts.push(`${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}`);
  return [`── ${parts.filter(part => part !== '').join('  ')}`, ...entryTexts(outputs, options)].join('\n');
}

export function widgetText({ commId, outputs }: CapturedOutputs, options: ViewOptions): string {
  return [`── Output widget ${commId}`, ...entryTexts(outputs, options)].join('\n');
}

function entryTexts(entries: readonly OutputEntry[], options: ViewOptions): string[] {
  return entries.map(({ output }) => printable(outputText(output), options).replace(/\n$/, ''));
}

function duration({ startedAt, finishedAt }: CellExecution): string {
  if (startedAt === null || finishedAt === null) return '';
  // A reply may be recorded before the state that says that the cell has begun.
  return `${(Math.max(0, Date.parse(finishedAt) - Date.parse(startedAt)) / 1000).toFixed(1)} s`;
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

/** The plain text, and the names of what a terminal cannot show. */
function bundleText(data: Readonly<Record<string, unknown>>): string {
  const { 'text/plain': plain, ...others } = data;
  const rich = Object.entries(others).map(([type, value]) => `[${type} ${sizeInWords(sizeOf(type, value))}]`);
  return [...(typeof plain === 'string' ? [plain] : []), ...(rich.length > 0 ? [rich.join(' ')] : [])].join(
    '\n'
  );
}

/** Images come as base64. */
function sizeOf(type: string, value: unknown): number {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const isBinary = /^(image|audio|video)\//.test(type) && type !== 'image/svg+xml';
  return isBinary ? Buffer.from(text, 'base64').length : Buffer.byteLength(text);
}

/**
 * What a kernel prints may hold sequences that move the cursor, rename the window or worse. Only colours pass, and only where
 * somebody looks at them.
 */
export function printable(text: string, { colours }: ViewOptions): string {
  const kept = text.replace(ESCAPES, sequence => (colours && COLOUR.test(sequence) ? sequence : ''));
  return kept.replace(CONTROLS, '');
}

const ESCAPES =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])/g;
const COLOUR = /^\x1b\[[0-9;:]*m$/;
const CONTROLS = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)/g;
