/** Whose a process is. */
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';

/** @param root stands for `/` in specs */
export async function userOfProcess(pid: number, root = '/'): Promise<string | null> {
  const found = await stat(path.join(root, 'proc', String(pid))).catch(() => null);
  return found === null ? null : userName(found.uid, root);
}

/** The name, else the number: users of a directory service are not in the file. */
export async function userName(uid: number, root = '/'): Promise<string> {
  const text = await readFile(path.join(root, 'etc/passwd'), 'utf8').catch(() => '');
  for (const line of text.split('\n')) {
    const [name, , number] = line.split(':');
    if (name && number === String(uid)) return name;
  }
  return String(uid);
}
