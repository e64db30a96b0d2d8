/** To which kernel a process belongs: kernels and what they start have its id in their environment. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';

const ID = /(?:^|\0)TPULAB_KERNEL_ID=([\w-]{1,64})(?:\0|$)/;

/** Null for processes of others, and for what is no kernel. Nothing else of the environment is looked at. */
export async function kernelOfProcess(pid: number, root = '/'): Promise<string | null> {
  const text = await readFile(path.join(root, 'proc', String(pid), 'environ'), 'latin1').catch(() => '');
  return ID.exec(text)?.[1] ?? null;
}
