/** The kernel of a notebook that is opened on a remote, and how long to wait for it. No DOM. */
import type { KernelSpec } from '@jupyterlab/services';
import type { Remote } from '@tpulab/protocol';
import { labSpecName, remotePlace } from '../backends/spec-names.js';

/** The name of an environment's kernelspec at its gateway. */
const environmentSpec = (environment: string): string => `tpulab-${environment}`;

/** The kernelspec of the remote's own environment, else its first one; null while none is listed. */
export function specFor(
  { name, environment }: Pick<Remote, 'name' | 'environment'>,
  specs: KernelSpec.ISpecModels | null
): string | null {
  const place = remotePlace(name);
  const own = labSpecName(place, environmentSpec(environment));
  const names = Object.keys(specs?.kernelspecs ?? {}).filter(spec => spec.startsWith(`${place}/`));
  return names.find(spec => spec === own) ?? names[0] ?? null;
}

/** Waits for the kernelspecs of a newly connected remote. @throws Error with `problem` when it lists none within `timeoutMs` */
export function waitForSpec(
  remote: Pick<Remote, 'name' | 'environment'>,
  kernelspecs: KernelSpec.IManager,
  timeoutMs: number,
  problem: string
): Promise<string> {
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      clearTimeout(timer);
      kernelspecs.specsChanged.disconnect(check);
    };
    const check = (): void => {
      const spec = specFor(remote, kernelspecs.specs);
      if (spec !== null) {
        finish();
        resolve(spec);
      }
    };
    const timer = setTimeout(() => {
      finish();
      reject(new Error(problem));
    }, timeoutMs);
    kernelspecs.specsChanged.connect(check);
    check();
    void kernelspecs.refreshSpecs().catch(() => undefined);
  });
}
