/** All kernelspecs of the bridge, and the one that is taken when a client names none. */
import { KernelSpecUnknownError } from '../http/errors.js';
import type { KernelSpec, KernelSpecSource } from './kernelspec.js';

export class KernelSpecCatalog {
  readonly #sources: readonly KernelSpecSource[];
  readonly #preferred: string | null;

  constructor(sources: readonly KernelSpecSource[], preferred: string | null) {
    this.#sources = sources;
    this.#preferred = preferred;
  }

  /** Read anew each time: environments are created and removed while the gateway runs. */
  async list(): Promise<ReadonlyMap<string, KernelSpec>> {
    const found = new Map<string, KernelSpec>();
    for (const specs of await Promise.all(this.#sources.map(source => source.kernelspecs()))) {
      for (const spec of specs) if (!found.has(spec.name)) found.set(spec.name, spec);
    }
    return found;
  }

  /** The spec of this name, or the default when no name is given. */
  async get(name: string | null | undefined): Promise<KernelSpec> {
    const specs = await this.list();
    const wanted = name ?? this.defaultOf(specs);
    const spec = this.#lookUp(specs, wanted);
    if (!spec) throw new KernelSpecUnknownError(wanted, [...specs.keys()].sort());
    return spec;
  }

  /** The spec that a client means by this name, or undefined. */
  async find(name: string): Promise<KernelSpec | undefined> {
    return this.#lookUp(await this.list(), name);
  }

  /**
   * Jupyter writes names in lower case. `python3` is what papermill, nbclient, Colab and others ask for who know no machine, and `python`
   * its older name: whatever Python is the default here.
   */
  #lookUp(specs: ReadonlyMap<string, KernelSpec>, name: string): KernelSpec | undefined {
    const lower = name.toLowerCase();
    const found = specs.get(name) ?? specs.get(lower);
    if (found || !/^python3?$/.test(lower)) return found;
    const preferred = specs.get('python3') ?? specs.get(this.defaultOf(specs));
    return preferred?.language === 'python'
      ? preferred
      : [...specs.values()].find(({ language }) => language === 'python');
  }

  /** Name of the default spec: the configured one, else one of ours, else `python3`, else the first. */
  defaultOf(specs: ReadonlyMap<string, KernelSpec>): string {
    if (this.#preferred !== null && specs.has(this.#preferred)) return this.#preferred;
    const names = [...specs.keys()].sort();
    return (
      names.find(name => specs.get(name)?.bestEffort === false) ??
      names.find(name => name === 'python3') ??
      names[0] ??
      this.#preferred ??
      'python3'
    );
  }
}
