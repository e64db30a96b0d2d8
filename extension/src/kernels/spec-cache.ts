/**
 * Caches the kernelspecs of a gateway between pages, so that a notebook opened while it is still starting
 * keeps its kernel instead of being offered another kernel of the same language.
 */
import type { KernelSpec } from '@jupyterlab/services';
import type { Place } from '../backends/spec-names.js';

/** Storage key for the kernelspecs of a place. */
function keyOf(place: Place): string {
  return place === 'bridge' ? 'tpulab:bridge-kernelspecs' : `tpulab:kernelspecs:${place}`;
}

export class SpecCache {
  /** `storage` as `window.localStorage`; null where the browser forbids it. */
  constructor(private readonly storage: Pick<Storage, 'getItem' | 'setItem'> | null) {}

  read(place: Place): Record<string, KernelSpec.ISpecModel> {
    try {
      const value: unknown = JSON.parse(this.storage?.getItem(keyOf(place)) ?? '{}');
      if (typeof value !== 'object' || value === null) return {};
      return Object.fromEntries(
        Object.entries(value).filter((entry): entry is [string, KernelSpec.ISpecModel] => isSpec(entry[1]))
      );
    } catch {
      return {}; // written by another program: it is only a cache
    }
  }

  write(place: Place, specs: Readonly<Record<string, KernelSpec.ISpecModel>>): void {
    try {
      const remembered = Object.fromEntries(
        // Only the fields for choosing a kernel: argv and env are the bridge's business.
        Object.entries(specs).map(([name, { language, display_name, metadata }]) => [
          name,
          { name, language, display_name, argv: [], resources: {}, ...(metadata && { metadata }) }
        ])
      );
      this.storage?.setItem(keyOf(place), JSON.stringify(remembered));
    } catch {
      // Storage is full or forbidden: the next page waits for the bridge.
    }
  }
}

function isSpec(value: unknown): value is KernelSpec.ISpecModel {
  if (typeof value !== 'object' || value === null) return false;
  const spec = value as Record<string, unknown>;
  return (
    typeof spec.name === 'string' &&
    typeof spec.language === 'string' &&
    typeof spec.display_name === 'string' &&
    Array.isArray(spec.argv) &&
    typeof spec.resources === 'object' &&
    spec.resources !== null
  );
}
