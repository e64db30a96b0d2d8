/** The kernelspecs of created environments, as a source for the catalogue. */
import { readdir } from 'node:fs/promises';
import type { EnvironmentCatalog } from '@tpulab/machines/environments';
import { type KernelSpec, type KernelSpecSource, resourcesOf } from '../kernels/kernelspec-catalog.js';

export class EnvironmentSpecs implements KernelSpecSource {
  constructor(private readonly catalog: EnvironmentCatalog) {}

  async kernelspecs(): Promise<readonly KernelSpec[]> {
    const specs = await this.catalog.kernelspecs();
    return Promise.all(
      [...specs].map(async ([name, { spec, envDefaults, resourceDir }]) => ({
        name,
        displayName: spec.display_name,
        language: spec.language,
        argv: withoutFolder(spec.argv),
        env: spec.env,
        envDefaults,
        interruptMode: spec.interrupt_mode,
        metadata: spec.metadata,
        resourceDir,
        resources: resourcesOf(await readdir(resourceDir).catch(() => [])),
        bestEffort: false
      }))
    );
  }
}

/**
 * `-m MODULE` searches the working folder first, where a notebook's own `types.py` or `tpulab.py` would break the start.
 * This removes that folder before any import; IPython restores it for the notebook, behind Python's own modules.
 */
function withoutFolder(argv: readonly string[]): readonly string[] {
  const at = argv.indexOf('-m');
  const module = argv[at + 1];
  if (at < 0 || module === undefined) return argv;
  const code = `import sys; sys.path[:1] == [''] and sys.path.pop(0); import runpy; runpy.run_module('${module}', run_name='__main__', alter_sys=True)`;
  return [...argv.slice(0, at), '-c', code, ...argv.slice(at + 2)];
}
