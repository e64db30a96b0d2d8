/** All kernelspecs of the bridge, and the default when a client names none. */
import { bridgeError } from '@tpulab/platform/errors.js';
import path from 'node:path';

export class KernelSpecCatalog {
  constructor(
    private readonly sources: readonly KernelSpecSource[],
    private readonly preferred: string | null
  ) {}

  /** Read each time, because environments are created and removed while the gateway runs. */
  async list(): Promise<ReadonlyMap<string, KernelSpec>> {
    const found = new Map<string, KernelSpec>();
    for (const specs of await Promise.all(this.sources.map(source => source.kernelspecs()))) {
      for (const spec of specs) if (!found.has(spec.name)) found.set(spec.name, spec);
    }
    return found;
  }

  /** The spec of this name, or the default when no name is given. */
  async get(name: string | null | undefined): Promise<KernelSpec> {
    const specs = await this.list();
    const requested = name ?? this.defaultOf(specs);
    const spec = this.#find(specs, requested);
    if (!spec) throw bridgeError('kernelspec_unknown', requested, [...specs.keys()].sort());
    return spec;
  }

  /** The spec that this name refers to, or undefined. */
  async find(name: string): Promise<KernelSpec | undefined> {
    return this.#find(await this.list(), name);
  }

  /**
   * Jupyter writes names in lower case. papermill, nbclient, Colab and other clients that know no machine request
   * `python3`, or its older name `python`: both mean the default Python here.
   */
  #find(specs: ReadonlyMap<string, KernelSpec>, name: string): KernelSpec | undefined {
    const lower = name.toLowerCase();
    const found = specs.get(name) ?? specs.get(lower);
    if (found || !/^python3?$/.test(lower)) return found;
    const preferred = specs.get('python3') ?? specs.get(this.defaultOf(specs));
    return preferred?.language === 'python'
      ? preferred
      : [...specs.values()].find(({ language }) => language === 'python');
  }

  /**
   * Name of the default spec: the configured one, otherwise the first of ours, otherwise `python3`, otherwise the first of
   * all.
   */
  defaultOf(specs: ReadonlyMap<string, KernelSpec>): string {
    if (this.preferred !== null && specs.has(this.preferred)) return this.preferred;
    const names = [...specs.keys()].sort();
    return (
      [...specs.values()].find(({ bestEffort }) => !bestEffort)?.name ??
      names.find(name => name === 'python3') ??
      names[0] ??
      this.preferred ??
      'python3'
    );
  }
}

/** A kernelspec as the bridge uses it, from any source. */
export interface KernelSpec {
  /** Name at the bridge; notebooks store it (docs/decisions/0004). */
  readonly name: string;
  readonly displayName: string;
  readonly language: string;
  readonly argv: readonly string[];
  /** Added to the kernel's environment; `${NAME}` is replaced by a variable of the gateway. */
  readonly env: Readonly<Record<string, string>>;
  /** Like `env`, but only for variables that the user has not set. */
  readonly envDefaults: Readonly<Record<string, string>>;
  readonly interruptMode: 'signal' | 'message';
  /** Version of the message protocol that the spec declares; absent when it declares none. */
  readonly protocolVersion?: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Folder with logos and kernel.js; null when it does not exist. */
  readonly resourceDir: string | null;
  /** Resource name (`logo-64x64`) to file name. */
  readonly resources: Readonly<Record<string, string>>;
  /** The kernel is not started by our launcher, so output that it prints faster than it is read may be lost in the kernel. */
  readonly bestEffort: boolean;
}

/** A source of kernelspecs. If two sources have a spec with the same name, the first source wins. */
export interface KernelSpecSource {
  kernelspecs(): Promise<readonly KernelSpec[]>;
}

const NAME = /^[a-z0-9._-]+$/i;

export function isKernelSpecName(name: string): boolean {
  return NAME.test(name) && name !== '.' && name !== '..';
}

/** The files beside kernel.json that clients may fetch, as Jupyter names them. */
export function resourcesOf(files: readonly string[]): Record<string, string> {
  const resources: Record<string, string> = {};
  for (const file of [...files].sort()) {
    if (file === 'kernel.js' || file === 'kernel.css') resources[file] = file;
    else if (/^logo-/.test(file)) resources[path.parse(file).name] = file;
  }
  return resources;
}
