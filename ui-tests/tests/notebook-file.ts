/** Notebooks as files: written by specs, and the outputs of their cells. */

const KERNELS: Readonly<Record<string, string>> = {
  'tpulab-jax': 'JAX (XLA) on this machine',
  python3: 'Python 3 (ipykernel)'
};

/** Code cells with the ids `cell-0`, `cell-1`, …, for the kernelspec of this name. Before nbformat 4.5 cells have no ids. */
export function notebookText(sources: readonly string[] = [], kernel = 'tpulab-jax', minor = 5): string {
  const cells = sources.map((source, at) => ({
    cell_type: 'code',
    ...(minor >= 5 ? { id: `cell-${at}` } : {}),
    metadata: {},
    source,
    outputs: [],
    execution_count: null
  }));
  const kernelspec = { name: kernel, display_name: KERNELS[kernel] ?? kernel, language: 'python' };
  return JSON.stringify({ cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: minor });
}

/** A cell that prints while no page is open (file `gone`), and then ends its kernel (`over`). */
export const ALONE = `import os, pathlib, time
def until(name):
    while not pathlib.Path(name).exists(): time.sleep(0.05)
print("begun", flush=True)
until("gone")
print("last words", flush=True)
until("over")
os._exit(3)`;

/** The part of nbformat that is read here. */
export interface NotebookJson {
  readonly cells: readonly {
    readonly id: string;
    readonly cell_type: string;
    readonly execution_count?: number | null;
    readonly outputs?: readonly {
      readonly text?: string | readonly string[];
      readonly data?: object;
      readonly ename?: string;
    }[];
  }[];
}

/** The outputs of one code cell. */
export interface CellOutputs {
  readonly id: string;
  /** All printed text, in order. */
  readonly text: string;
  readonly mimeTypes: readonly string[];
  readonly errors: readonly string[];
  readonly executionCount: number | null;
}

export function codeCells({ cells }: NotebookJson): CellOutputs[] {
  return cells
    .filter(cell => cell.cell_type === 'code')
    .map(({ id, execution_count: executionCount = null, outputs = [] }) => ({
      id,
      executionCount,
      text: outputs.map(({ text = '' }) => (typeof text === 'string' ? text : text.join(''))).join(''),
      mimeTypes: outputs.flatMap(({ data }) => Object.keys(data ?? {})),
      errors: outputs.flatMap(({ ename }) => ename ?? [])
    }));
}
