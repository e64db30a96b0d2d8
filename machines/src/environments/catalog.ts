/** The environments of this machine: described ones, created ones, and those that the bridge offers as kernels. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { EnvironmentInfo } from '@tpulab/protocol';
import { addedPackages } from './added-packages.js';
import { readRecord } from './creation-record.js';
import { type Definition, kernelspecName, readDefinitions, variantOf } from './definition.js';
import { environmentFolder, pythonOf } from './folders.js';
import { type EnvironmentKernelspec, kernelspecOf } from './kernelspec.js';
import { definitionsFolder, environmentsFolder } from './locations.js';

export interface EnvironmentCatalogOptions {
  /** Folder of created environments; by default `$TPULAB_ENV_DIR`, otherwise the XDG data folder. */
  readonly environments?: string;
  /** Folder of descriptions; by default the package's own. */
  readonly definitions?: string;
}

const NAME = /^[a-z0-9][a-z0-9-]*$/;

export class EnvironmentCatalog {
  readonly environments: string;
  readonly definitions: string;

  constructor(options: EnvironmentCatalogOptions = {}) {
    this.environments = environmentsFolder(options.environments);
    this.definitions = definitionsFolder(options.definitions);
  }

  /** Every described and every created environment. Only reads files: `check` is the call that runs programs. */
  async list(): Promise<EnvironmentInfo[]> {
    const definitions = await this.#definitions();
    const offered = definitions.filter(({ description }) => description.onDemand !== true);
    const names = new Set([...offered.map(definition => definition.name), ...(await this.#created())]);
    return Promise.all(
      [...names].sort().map(name =>
        this.info(
          name,
          definitions.find(definition => definition.name === name)
        )
      )
    );
  }

  /** State of one environment; `definition` is undefined if its description no longer exists. */
  async info(name: string, definition: Definition | undefined): Promise<EnvironmentInfo> {
    const folder = environmentFolder(this.environments, name);
    const record = await readRecord(folder);
    const { displayName = record?.displayName ?? name, diskMiB = null } = definition?.description ?? {};
    const common = { name, displayName, kernelspec: kernelspecName(name), diskMiB };
    if (!existsSync(folder)) {
      return { ...common, state: 'available', path: null, detail: definition?.description.summary ?? null };
    }
    const added = await addedPackages(folder);
    const at = (state: EnvironmentInfo['state'], detail: string | null): EnvironmentInfo => ({
      ...common,
      state,
      path: folder,
      detail,
      added
    });
    if (record === null)
      return at('broken', 'It was not created by `tpulab env create`; remove it or create it again.');
    if (record.python !== undefined) {
      return existsSync(record.python)
        ? at('ready', `Yours: ${record.python}`)
        : at('broken', `Its Python, ${record.python}, no longer exists; add it again or remove it.`);
    }
    if (!existsSync(pythonOf(folder))) {
      return at('broken', 'The Python it was created with no longer exists; create it again.');
    }
    if (!definition)
      return at('outdated', 'TPULab no longer describes this environment; keep it or remove it.');
    if (record.fingerprint !== variantOf(definition, record.accelerator ?? 'cpu').fingerprint) {
      return at('outdated', 'Its description or lock file has changed; create it again.');
    }
    return at('ready', added.length === 0 ? null : `Added by you: ${added.join(', ')}`);
  }

  /**
   * Kernelspecs of the environments that can run a kernel, by name. A client without a choice gets the first: TPULab's own
   * environments come before added ones, and an environment that a command created for itself comes last.
   */
  async kernelspecs(): Promise<Map<string, EnvironmentKernelspec>> {
    const found = new Map<string, EnvironmentKernelspec>();
    const definitions = new Map((await this.#definitions()).map(each => [each.name, each.description]));
    const rank = (name: string): number =>
      !definitions.has(name) ? 1 : definitions.get(name)?.onDemand === true ? 2 : 0;
    const names = (await this.#created()).sort();
    for (const name of names.sort((a, b) => rank(a) - rank(b))) {
      const folder = environmentFolder(this.environments, name);
      const record = await readRecord(folder);
      if (record?.name !== name || !existsSync(record.python ?? pythonOf(folder))) continue;
      found.set(kernelspecName(name), kernelspecOf(folder, record));
    }
    return found;
  }

  async #created(): Promise<string[]> {
    try {
      const entries = await readdir(this.environments, { withFileTypes: true });
      // A large environment may be on another disk, behind a link.
      return entries
        .filter(entry => (entry.isDirectory() || entry.isSymbolicLink()) && NAME.test(entry.name))
        .map(({ name }) => name);
    } catch {
      return [];
    }
  }

  /** A gateway without descriptions still offers created environments. */
  async #definitions(): Promise<Definition[]> {
    return existsSync(this.definitions) ? readDefinitions(this.definitions) : [];
  }
}
