/** The launcher cards of the bridge's kernelspecs, and the stock cards that would show the same action twice. */
import type { KernelSpec } from '@jupyterlab/services';

interface ICard {
  readonly kernelName: string;
  readonly rank: number;
}

/** A launcher item, with the fields that identify its action. */
export interface IItem {
  readonly command: string;
  readonly args?: Readonly<Record<string, unknown>>;
}

export const STOCK_NOTEBOOK_COMMAND = 'notebook:create-new';

/** One card per kernelspec of the bridge: our own environments first, then other specs of the machine. */
export function bridgeCards(
  specs: KernelSpec.ISpecModels | null,
  isBridgeSpec: (name: string) => boolean
): ICard[] {
  return Object.entries(specs?.kernelspecs ?? {}).flatMap(([name, spec]) =>
    spec && isBridgeSpec(name)
      ? [
          {
            kernelName: name,
            rank: spec.metadata?.tpulab === undefined ? 0 : bestEffortRank(spec)
          }
        ]
      : []
  );
}

/** True for the stock "new notebook" card of a kernelspec that has a TPULab card. */
export function isDouble(item: IItem, isBridgeSpec: (name: string) => boolean): boolean {
  const name = item.args?.kernelName;
  return item.command === STOCK_NOTEBOOK_COMMAND && typeof name === 'string' && isBridgeSpec(name);
}

function bestEffortRank(spec: KernelSpec.ISpecModel): number {
  const tpulab = spec.metadata?.tpulab;
  return typeof tpulab === 'object' && tpulab !== null && 'bestEffort' in tpulab && tpulab.bestEffort === true
    ? 1
    : 0;
}
