/** Notebooks that a spec writes for itself, as the text of their files. */

const KERNELS: Readonly<Record<string, string>> = {
  'tpulab-jax': 'JAX (XLA) on this machine',
  python3: 'Python 3 (ipykernel)'
};

/** Code cells with the ids `cell-0`, `cell-1`, …, for the kernelspec of this name. */
export function notebookText(sources: readonly string[] = [], kernel = 'tpulab-jax'): string {
  const cells = sources.map((source, at) => ({
    cell_type: 'code',
    id: `cell-${at}`,
    metadata: {},
    source,
    outputs: [],
    execution_count: null
  }));
  const kernelspec = { name: kernel, display_name: KERNELS[kernel] ?? kernel, language: 'python' };
  return JSON.stringify({ cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 });
}
