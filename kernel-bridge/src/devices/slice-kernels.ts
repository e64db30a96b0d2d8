/** Kernels over all hosts of a slice begin so, as `python -m tpulab.slice add` names them. */
export const SLICE_KERNELS = 'tpulab-slice-';

/** Environments whose kernels run over all hosts, by the framework that the kernelspec of a slice names. */
export const SLICE_ENVIRONMENTS: Readonly<Record<string, string>> = { jax: 'jax', torch: 'torch-xla' };
