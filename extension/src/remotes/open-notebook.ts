/** The kernel of a notebook that is opened on a remote, and how long to wait for it. No DOM. */
import type { KernelSpec } from '@jupyterlab/services';
import type { Remote } from '@tpulab/protocol';
import { labSpecName, remotePlace } from '../backends/spec-names.js';
import { until } from '../platform/wait.js';

/** The name of an environment's kernelspec at its gateway. */
const environmentSpec = (environment: string): string => `tpulab-${environment}`;

/** The kernelspec of the remote's own environment, else its first one; null while none is listed. */
function specFor(
  { name, environment }: Pick<Remote, 'name' | 'environment'>,
  specs: KernelSpec.ISpecModels | null
): string | null {
  const place = remotePlace(name);
  const own = labSpecName(place, environmentSpec(environment));
  const names = Object.keys(specs?.kernelspecs ?? {}).filter(spec => spec.startsWith(`${place}/`));
  return names.find(spec => spec === own) ?? names[0] ?? null;
}

/** Waits for the kernelspecs of a newly connected remote. @throws Error with `problem` when it lists none within `timeoutMs` */
export async function waitForSpec(
  remote: Pick<Remote, 'name' | 'environment'>,
  kernelspecs: KernelSpec.IManager,
  timeoutMs: number,
  problem: string
): Promise<string> {
  const found = (): string | null => specFor(remote, kernelspecs.specs);
  void kernelspecs.refreshSpecs().catch(() => undefined);
  await until([kernelspecs.specsChanged], () => found() !== null, timeoutMs);
  const spec = found();
  if (spec === null) throw new Error(problem);
  return spec;
}
