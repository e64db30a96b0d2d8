/** For specs: kernelspecs whose kernels are real ipykernels of the checkout's kernel environment. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const CHECKOUT = fileURLToPath(new URL('../../../', import.meta.url));
const PYTHON = path.join(CHECKOUT, '.tpulab', 'envs', 'jax', 'bin', 'python');

/**
 * Writes `python3`, a stock ipykernel, and `lossless`, an ipykernel started by our launcher: only the latter loses nothing
 * when it prints faster than its output is read. Returns the folder for JUPYTER_PATH.
 */
export function writeKernelSpecs(folder: string): string {
  const dataFolder = path.join(folder, 'jupyter');
  const specs = { python3: 'ipykernel_launcher', lossless: 'tpulab.launcher' };
  for (const [name, module] of Object.entries(specs)) {
    const at = path.join(dataFolder, 'kernels', name);
    mkdirSync(at, { recursive: true });
    const argv = [PYTHON, '-m', module, '-f', '{connection_file}'];
    const kernel = {
      argv,
      display_name: `Spec ${name}`,
      language: 'python',
      metadata: { debugger: true },
      // A history file that kernels of other specs also write can be locked, and IPython would print that into a cell.
      env: { IPYTHONDIR: path.join(dataFolder, 'ipython') }
    };
    writeFileSync(path.join(at, 'kernel.json'), JSON.stringify(kernel));
    writeFileSync(path.join(at, 'logo-svg.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  }
  return dataFolder;
}
