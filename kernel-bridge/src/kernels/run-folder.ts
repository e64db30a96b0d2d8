/** Folders for sockets. A unix socket's path has a hard limit, which a deep home folder easily exceeds. */
import { chmod, mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** `sun_path` holds 104 bytes on macOS and 108 on Linux, with the closing zero. */
const SOCKET_PATH_BYTES = 103;
/** Room for the longest socket name that a keeper makes in the folder. */
const NAME_BYTES = 32;

/** Makes a folder that only this user can enter, below the state folder when its path is short enough. */
export async function makeRunFolder(stateDir: string, kernelId: string): Promise<string> {
  // Long enough to be unique among the kernels of one state folder.
  const folder = path.join(stateDir, 'run', kernelId.replaceAll('-', '').slice(0, 16));
  if (Buffer.byteLength(folder) + 1 + NAME_BYTES <= SOCKET_PATH_BYTES) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chmod(folder, 0o700);
    return folder;
  }
  return mkdtemp(path.join(tmpdir(), 'tpulab-'));
}
