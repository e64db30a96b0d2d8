/** Notebooks that a spec writes for itself, as the text of their files. */

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
