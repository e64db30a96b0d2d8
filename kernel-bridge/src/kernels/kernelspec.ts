/** A kernelspec as the bridge uses it, whatever it came from. */
import path from 'node:path';

export interface KernelSpec {
  /** Name at the bridge; notebooks store it (docs/decisions/0004). */
  readonly name: string;
  readonly displayName: string;
  readonly language: string;
  readonly argv: readonly string[];
  /** Added to the kernel's environment; `${NAME}` stands for a variable of the gateway. */
  readonly env: Readonly<Record<string, string>>;
  /** As `env`, for variables that the user has not set. */
  readonly envDefaults: Readonly<Record<string, string>>;
  readonly interruptMode: 'signal' | 'message';
  /** Version of the message protocol that the spec claims; absent when it claims none. */
  readonly protocolVersion?: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Folder with logos and kernel.js; null when there is none. */
  readonly resourceDir: string | null;
  /** Resource name (`logo-64x64`) to file name. */
  readonly resources: Readonly<Record<string, string>>;
  /** Not started by our launcher, so what it prints faster than it is read may be lost in the kernel. */
  readonly bestEffort: boolean;
}

/** Where kernelspecs come from. Of two specs with one name the first source wins. */
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
