/** Data of libtpu's own SDK about each device: TensorCore utilization, throttling, and the state of its links. */
import type { SdkFigures } from '@tpulab/protocol';

/** Health of a chip's links to its neighbours, the worst of them: libtpu's 0, 1-5, 6-9 and 10. */
export type LinkState = 'healthy' | 'transient' | 'minor' | 'unusable';

/** From the best to the worst. */
const LINK_ORDER: readonly LinkState[] = ['healthy', 'transient', 'minor', 'unusable'];

/** Null when none is known. */
export function worstLink(links: readonly LinkState[]): LinkState | null {
  return LINK_ORDER[Math.max(-1, ...links.map(link => LINK_ORDER.indexOf(link)))] ?? null;
}

/** @param ordinal number of the device in its machine; null when the SDK does not report it */
export function throttleOf(sdk: SdkFigures | undefined, ordinal: number): number | null {
  return sdk?.throttlePercent.find(({ device }) => device === ordinal)?.percent ?? null;
}

/** @param at position of the device among `count` of its machine; null unless the SDK reports exactly as many */
export function tensorCoreOf(sdk: SdkFigures | undefined, at: number, count: number): number | null {
  return sdk?.tensorCorePercent.length === count ? (sdk.tensorCorePercent[at] ?? null) : null;
}

/**
 * The worst link of each chip, by the chip's position in its machine. Links are named by tray and chip
 * (`tray1.chip3.ici0`); chip numbers continue over trays only when each of the machine's chips is named, because a
 * tray with missing chips does not show where the next one begins.
 */
export function linksByChip(sdk: SdkFigures | undefined, chipCount: number): ReadonlyMap<number, LinkState> {
  const named = (sdk?.links ?? []).flatMap(({ name, state }) => {
    const found = /^tray(\d+)\.chip(\d+)\./.exec(name);
    return found
      ? [
          {
            tray: Number(found[1]),
            chip: Number(found[2]),
            state: state === 'ok' ? 'healthy' : state
          } as const
        ]
      : [];
  });
  named.sort((a, b) => a.tray - b.tray || a.chip - b.chip);
  const places = [...new Set(named.map(({ tray, chip }) => `${tray}.${chip}`))];
  const isOneTray = new Set(named.map(({ tray }) => tray)).size === 1;
  const worst = new Map<number, LinkState>();
  if (!isOneTray && places.length !== chipCount) {
    return worst;
  }
  for (const { tray, chip, state } of named) {
    const at = places.length === chipCount ? places.indexOf(`${tray}.${chip}`) : chip;
    worst.set(at, worstLink([worst.get(at) ?? 'healthy', state]) ?? state);
  }
  return worst;
}
