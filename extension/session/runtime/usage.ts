/** How long a kernel has been idle, and the approximate cost of its machine since this browser connected to it. */
import { trans } from '../text.js';

const PRICES_KEY = 'tpulab:prices';
const SINCE_KEY = 'tpulab:connected-since';
/** Maximum number of kernels whose start is stored. */
const MAX_ENTRIES = 50;
const HOUR_MS = 3_600_000;

/**
 * Prices differ by region, contract and day, so none is built in: the user enters the hourly price of this kind of machine once, in
 * any currency.
 */
export class Prices {
  constructor(private readonly storage: Storage | null) {}

  /** Price per hour; null: not entered. */
  of(machine: string): number | null {
    const price = storedJson(this.storage, PRICES_KEY)[machine];
    return typeof price === 'number' && price > 0 ? price : null;
  }

  /** Null deletes it. */
  set(machine: string, perHour: number | null): void {
    const { [machine]: _, ...others } = storedJson(this.storage, PRICES_KEY);
    storeJson(this.storage, PRICES_KEY, perHour === null ? others : { ...others, [machine]: perHour });
  }
}

/** Unix milliseconds at which this browser first saw the kernel; stores the present time for a new kernel. */
export function connectedSince(storage: Storage | null, kernelId: string, now: number): number {
  const known = storedJson(storage, SINCE_KEY);
  const since = known[kernelId];
  if (typeof since === 'number') return since;
  const newest = Object.entries({ ...known, [kernelId]: now })
    .sort(([, a], [, b]) => Number(b) - Number(a))
    .slice(0, MAX_ENTRIES);
  storeJson(storage, SINCE_KEY, Object.fromEntries(newest));
  return now;
}

/** "about 9.84": never a bill. */
export function costText(perHour: number, ms: number): string {
  return trans.__('about %1', ((perHour * ms) / HOUR_MS).toFixed(2));
}

/** The entered price, with a comma or a point; null for an invalid price. */
export function priceOf(text: string): number | null {
  const price = Number(text.trim().replace(',', '.'));
  return text.trim() !== '' && Number.isFinite(price) && price > 0 ? price : null;
}

/** An object in the storage of the browser. Invalid or unavailable storage counts as empty. */
function storedJson(storage: Storage | null, key: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(storage?.getItem(key) ?? '{}');
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function storeJson(storage: Storage | null, key: string, value: object): void {
  try {
    storage?.setItem(key, JSON.stringify(value));
  } catch {
    // Stored in this page alone.
  }
}
