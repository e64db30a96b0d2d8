/** Which processes hold which chips: "TPU already in use" is answered with a name. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';

export interface Owner {
  readonly pid: number;
  readonly command: string | null;
}

/** Looks through open files; those of other users only root may see, and these are simply not found. */
export async function chipOwners(
  nodes: readonly string[],
  root = '/'
): Promise<ReadonlyMap<string, readonly Owner[]>> {
  const owners = new Map<string, Owner[]>(nodes.map(node => [node, []]));
  if (nodes.length === 0) return owners;
  const proc = path.join(root, 'proc');
  const pids = (await readdir(proc).catch((): string[] => [])).filter(name => /^\d+$/.test(name));
  for (const pid of pids) {
    const held = await openNodes(path.join(proc, pid, 'fd'), owners);
    if (held.size === 0) continue;
    const command = (await readFile(path.join(proc, pid, 'comm'), 'utf8').catch(() => null))?.trim() ?? null;
    for (const node of held) owners.get(node)?.push({ pid: Number(pid), command });
  }
  return owners;
}

async function openNodes(folder: string, nodes: ReadonlyMap<string, unknown>): Promise<Set<string>> {
  const held = new Set<string>();
  for (const fd of await readdir(folder).catch((): string[] => [])) {
    const target = await readlink(path.join(folder, fd)).catch(() => null);
    if (target !== null && nodes.has(target)) held.add(target);
  }
  return held;
}
