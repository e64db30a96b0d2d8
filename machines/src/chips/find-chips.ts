/** Finds the TPU chips of this machine through the Linux kernel. Takes milliseconds, and needs no privileges and no runtime. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import type { Chip } from '@tpulab/protocol';
import type { ChipTable } from './chip-table.js';

/** Google's PCI vendor id. */
const VENDOR = '0x1ae0';
/** Other PCI functions of Google (network cards, disks) are not chips; an unknown chip of the TPU class is a chip. */
const NOT_CHIPS = new Set(['0x0042', '0x001f']);

export type FoundChip = Omit<Chip, 'owners'>;

/** @param root replaces `/` in specs */
export async function findChips(table: ChipTable, root = '/'): Promise<FoundChip[]> {
  const folder = path.join(root, 'sys/bus/pci/devices');
  const addresses = await readdir(folder).catch((): string[] => []);
  const found: Omit<FoundChip, 'index'>[] = [];
  for (const pciAddress of addresses.sort()) {
    const at = path.join(folder, pciAddress);
    if ((await idAt(at, 'vendor')) !== VENDOR) continue;
    const pciDevice = await idAt(at, 'device');
    if (pciDevice === null || NOT_CHIPS.has(pciDevice)) continue;
    const spec = table.byPci(pciDevice, await idAt(at, 'subsystem_device'));
    const node = await nodeOf(at, root);
    // Without a spec, only an accelerator device file distinguishes a chip from other hardware of the vendor.
    if (!spec && node === null) continue;
    found.push({ pciAddress, pciDevice, name: spec?.name ?? null, node });
  }
  return found.map((chip, index) => ({ index, ...chip }));
}

async function idAt(device: string, name: string): Promise<string | null> {
  const text = await readFile(path.join(device, name), 'utf8').catch(() => null);
  return text?.trim().toLowerCase() ?? null;
}

/** `/dev/accelN` up to v4, `/dev/vfio/GROUP` from v5e on; GROUP is the IOMMU group. */
async function nodeOf(device: string, root: string): Promise<string | null> {
  const [accel] = await readdir(path.join(device, 'accel')).catch((): string[] => []);
  if (accel !== undefined) return `/dev/${accel}`;
  const group = await readlink(path.join(device, 'iommu_group')).catch(() => null);
  if (group === null) return null;
  const name = path.basename(group);
  const nodes = await readdir(path.join(root, 'dev/vfio')).catch((): string[] => []);
  return nodes.includes(name) ? `/dev/vfio/${name}` : null;
}
