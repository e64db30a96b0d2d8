/** Which chips a host has, by the numbers on its PCI bus. */
import type { ChipTable } from '../../devices/index.js';
import type { Accelerator, Definition } from '../../environments/definition.js';
import type { HostFacts } from './host-facts.js';

/** One name for each chip: `['v5e', 'v5e', …]`; unknown devices of the vendor (disks, network cards) are left out. */
export function chipNames(facts: HostFacts, chips: ChipTable): string[] {
  return facts.pciDevices.flatMap(({ device, subsystem }) => chips.byPci(device, subsystem)?.name ?? []);
}

/** Whether kernels there are to use chips, so that a missing TPU is an error instead of a run on the CPU. */
export function hasChips(facts: HostFacts, chips: ChipTable): boolean {
  return facts.nodes.length > 0 || chipNames(facts, chips).length > 0;
}

/** What an environment is made for there. */
export function acceleratorFor(
  facts: HostFacts,
  chips: ChipTable,
  { description }: Pick<Definition, 'description'>
): Accelerator {
  return hasChips(facts, chips) && description.tpu !== undefined ? 'tpu' : 'cpu';
}
