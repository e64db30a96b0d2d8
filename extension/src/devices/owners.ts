/** The holders of the chips: processes, named by kernel and notebook where they belong to this bridge. */
import type { DevicesPage, HoldersPage } from '@tpulab/protocol';

export interface Holder {
  readonly pid: number;
  readonly command: string | null;
  /** Null where it cannot be determined, or the bridge does not report it. */
  readonly user: string | null;
  /** Null for a process that is not a kernel of this bridge. */
  readonly kernel: HoldingKernel | null;
  /** Id of a kernel that belongs to another bridge, which alone can end it. */
  readonly foreignKernelId: string | null;
  /** Path of the kernel's document, where the page knows it and can show it. */
  readonly document: string | null;
  readonly chips: readonly number[];
  /** Holds libtpu's lock file, which keeps other processes off the chips too. */
  readonly holdsLock: boolean;
}

interface HoldingKernel {
  readonly id: string;
  /** Null where the bridge reports only the id; the next fields likewise. */
  readonly name: string | null;
  readonly executionState: string | null;
  /** Since its last activity, as of the page. */
  readonly idleS: number | null;
  /** Names used by its gateway; the page may know none of them. */
  readonly documents: readonly string[];
}

/**
 * @param reported the bridge's processes; null from a bridge that reports only the chips
 * @param documentOf path of the document of a kernel
 */
export function holdersOf(
  page: DevicesPage | null,
  reported: HoldersPage | null,
  documentOf: (kernelId: string) => string | null
): Holder[] {
  return reported === null
    ? ownersOf(page, documentOf)
    : reported.holders.map(one => reportedHolder(one, page, documentOf));
}

function reportedHolder(
  { pid, command, user, nodes, holdsLock, kernelId, kernel }: HoldersPage['holders'][number],
  page: DevicesPage | null,
  documentOf: (kernelId: string) => string | null
): Holder {
  const chips = (page?.chips ?? []).flatMap(({ index, node }) =>
    node !== null && nodes.includes(node) ? [index] : []
  );
  return {
    pid,
    command,
    user,
    kernel: kernel && {
      id: kernel.id,
      name: kernel.name,
      executionState: kernel.executionState,
      idleS: kernel.idleS,
      documents: kernel.documents
    },
    foreignKernelId: kernel === null ? kernelId : null,
    document: kernel && documentOf(kernel.id),
    chips,
    holdsLock
  };
}

function ownersOf(page: DevicesPage | null, documentOf: (kernelId: string) => string | null): Holder[] {
  const holders = new Map<number, { command: string | null; kernelId: string | null; chips: number[] }>();
  for (const chip of page?.chips ?? []) {
    for (const { pid, command, kernelId } of chip.owners) {
      const holder = holders.get(pid) ?? { command, kernelId, chips: [] };
      holder.chips.push(chip.index);
      holders.set(pid, holder);
    }
  }
  return [...holders].map(([pid, { command, kernelId, chips }]) => ({
    pid,
    command,
    user: null,
    kernel:
      kernelId === null
        ? null
        : { id: kernelId, name: null, executionState: null, idleS: null, documents: [] },
    foreignKernelId: null,
    document: kernelId === null ? null : documentOf(kernelId),
    chips,
    holdsLock: false
  }));
}

/** `0 to 3`, `0, 2 and 5` without words: `0–3`, `0, 2, 5`. */
export function rangesText(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let at = 0; at < sorted.length;) {
    let end = at;
    while (sorted[end + 1] === (sorted[end] ?? 0) + 1) {
      end += 1;
    }
    const [first, last] = [sorted[at], sorted[end]];
    parts.push(first === last ? String(first) : `${String(first)}–${String(last)}`);
    at = end + 1;
  }
  return parts.join(', ');
}
