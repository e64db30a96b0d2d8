/** The kernelspecs of created environments, as a source of the catalogue. */
import { readdir } from 'node:fs/promises';
import type { EnvironmentCatalog } from '../environments/index.js';
import { type KernelSpec, type KernelSpecSource, resourcesOf } from '../kernels/kernelspec.js';

export class EnvironmentSpecs implements KernelSpecSource {
  readonly #catalog: EnvironmentCatalog;

  constructor(catalog: EnvironmentCatalog) {
    this.#catalog = catalog;
  }

  async kernelspecs(): Promise<readonly KernelSpec[]> {
    const specs = await this.#catalog.kernelspecs();
    return Promise.all(
      [...specs].map(async ([name, { spec, envDefaults, resourceDir }]) => ({
        name,
        displayName: spec.display_name,
        language: spec.language,
        argv: spec.argv,
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
