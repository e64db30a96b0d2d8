/** For specs: programs of JupyterLab's environment in the checkout, which has nbformat and nbclient. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const PYTHON = fileURLToPath(new URL('../../../../.tpulab/lab/bin/python', import.meta.url));

/** Returns the program's output. `script` is in this folder. */
export async function runPython(
  script: string,
  args: readonly string[],
  env: Record<string, string> = {}
): Promise<string> {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const { stdout } = await promisify(execFile)(PYTHON, [file, ...args], {
    maxBuffer: 256 * 1024 * 1024,
    env: { ...process.env, ...env },
    timeout: 200_000
  });
  return stdout;
}
