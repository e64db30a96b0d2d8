/**
 * Who has a host on which two builds of TPULab meet. A newer version puts an older one aside; a build that is older, or as old, leaves
 * the other one alone until a person insists, and what a person insisted on is left alone by all: two computers never put each other
 * aside in turn.
 */
import type { HostGateway } from './host-facts.js';
import { SetupError } from './setup-error.js';

/** Who wants to have its gateway there. */
export interface Newcomer {
  /** `versions/0.1.0-1a2b3c4d5e6f`: the folder of its bridge. */
  readonly bridge: string;
  readonly sender: string;
  /** A person insists. */
  readonly takeOver: boolean;
}

/** Whether this gateway is the newcomer's own, or may end for it. */
export function mayReplace(running: HostGateway, newcomer: Newcomer): boolean {
  // One that was broken off at its start has not said yet what it is.
  if (running.bridge === newcomer.bridge || running.bridge === '' || newcomer.takeOver) return true;
  const { starter } = running;
  if (starter?.sender === newcomer.sender) return true;
  return starter?.tookOver !== true && isNewer(newcomer.bridge, running.bridge);
}

/** Says what runs there and what to do. */
export function otherBuild(host: string, running: string, newcomer: Newcomer): SetupError {
  const [theirs, ours] = [nameOf(running), nameOf(newcomer.bridge)];
  const same = isNewer(running, newcomer.bridge)
    ? 'Update TPULab on this computer'
    : 'Have the same TPULab on both computers';
  return new SetupError(
    'setup_other_build',
    `On ${host} TPULab ${theirs} runs for another computer, and this one has ${ours}; it is left alone. ${same}, or connect anyway ("Connect anyway" in JupyterLab, "tpulab connect NAME --take-over"): then the other computer is put aside. Kernels go on either way.`
  );
}

function isNewer(one: string, other: string): boolean {
  const [a, b] = [numbersOf(one), numbersOf(other)];
  if (a === null || b === null) return false;
  for (let index = 0; index < a.length; index++) {
    if (a[index] !== b[index]) return (a[index] ?? 0) > (b[index] ?? 0);
  }
  return false;
}

/** The three numbers of a version; null for a folder that is named otherwise. Builds of one version have no order. */
function numbersOf(bridge: string): number[] | null {
  const found = /^versions\/(\d+)\.(\d+)\.(\d+)-/.exec(bridge);
  return found ? found.slice(1).map(Number) : null;
}

function nameOf(bridge: string): string {
  const [, version, hash] = /^versions\/(.+)-([0-9a-f]{12})$/.exec(bridge) ?? [];
  return version === undefined ? bridge : `${version} (build ${hash})`;
}
