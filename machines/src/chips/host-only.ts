/**
 * On a slice: whether kernels of this host use only its own chips. Otherwise libtpu waits for the other hosts of the slice,
 * and the first cell that uses a chip hangs. The variable names are libtpu's, as in JAX's own multi-process tests.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ChipTable } from './chip-table.js';
import { findChips } from './find-chips.js';

const FILE = 'host-only';

/** Number of chips of a host → their arrangement. A host of a slice has four or eight. */
const BOUNDS: Readonly<Record<number, string>> = { 1: '1,1,1', 2: '1,2,1', 4: '2,2,1', 8: '2,4,1' };

export class HostOnly {
  readonly #file: string;

  /** @param root replaces `/` in specs */
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

  /** Applies to kernels that start from now on; stored for the next gateway. */
  async set(isOn: boolean): Promise<void> {
    if (isOn) await writeFile(this.#file, 'on', { mode: 0o600 });
    else await rm(this.#file, { force: true });
  }

  /** Environment variables for a kernel; none if there are no chips, or an unsupported number of them. */
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

/** Prefix of kernels over all hosts of a slice, as `python -m tpulab.slice add` names them. */
export const SLICE_KERNELS = 'tpulab-slice-';

/** Environments whose kernels run over all hosts, by the framework in the name of a slice's kernelspec. */
export const SLICE_ENVIRONMENTS: Readonly<Record<string, string>> = { jax: 'jax', torch: 'torch-xla' };
