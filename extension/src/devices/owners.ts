/** Who holds the chips: processes, named by kernel and notebook where they are of this bridge. */
import type { DevicesPage } from '@tpulab/protocol';

export interface Holder {
  readonly pid: number;
  readonly command: string | null;
  /** Null for a process that is no kernel of this bridge. */
  readonly kernelId: string | null;
  /** Path of the document that the kernel belongs to, where the page knows it. */
  readonly document: string | null;
  /** Chips that it has open. */
  readonly chips: readonly number[];
}

/** @param documentOf path of the document of a kernel */
export function holdersOf(
  page: DevicesPage | null,
  documentOf: (kernelId: string) => string | null
): Holder[] {
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
    kernelId,
    document: kernelId === null ? null : documentOf(kernelId),
    chips
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
