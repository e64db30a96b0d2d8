/**
 * Of a slice: whether kernels of this host use its own chips alone. libtpu otherwise waits for the other hosts of the slice, and the
 * first cell that uses a chip hangs. The names are libtpu's, as JAX's own multi-process tests set them.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ChipTable } from './chip-table.js';
import { findChips } from './find-chips.js';

const FILE = 'host-only';

/** Chips of a host → how they are arranged. A host of a slice has four, or eight. */
const BOUNDS: Readonly<Record<number, string>> = { 1: '1,1,1', 2: '1,2,1', 4: '2,2,1', 8: '2,4,1' };

export class HostOnly {
  readonly #file: string;

  /** @param root stands for `/` in specs */
  constructor(
    stateDir: string,
    private readonly chips: ChipTable,
    private readonly root = '/'
  ) {
    this.#file = path.join(stateDir, FILE);
  }

  async isOn(): Promise<boolean> {
    return (await readFile(this.#file, 'utf8').catch(() => '')) === 'on';
  }

  /** For kernels that start from now on; kept for the next gateway. */
  async set(isOn: boolean): Promise<void> {
    if (isOn) await writeFile(this.#file, 'on', { mode: 0o600 });
    else await rm(this.#file, { force: true });
  }

  /** What a kernel needs in its environment; nothing where there are no chips, or as many as no host has. */
  async variables(specName = ''): Promise<Readonly<Record<string, string>>> {
    if (specName.startsWith(SLICE_KERNELS) || !(await this.isOn())) return {};
    const { length } = await findChips(this.chips, this.root);
    const bounds = BOUNDS[length];
    if (bounds === undefined) return {};
    return {
      TPU_PROCESS_BOUNDS: '1,1,1',
      TPU_CHIPS_PER_PROCESS_BOUNDS: bounds,
      TPU_VISIBLE_CHIPS: Array.from({ length }, (_, index) => index).join(',')
    };
  }
}

/** Kernels over all hosts of a slice begin so, as `python -m tpulab.slice add` names them. */
export const SLICE_KERNELS = 'tpulab-slice-';

/** Environments whose kernels run over all hosts, by the framework that the kernelspec of a slice names. */
export const SLICE_ENVIRONMENTS: Readonly<Record<string, string>> = { jax: 'jax', torch: 'torch-xla' };
