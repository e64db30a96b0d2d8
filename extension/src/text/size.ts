/** Sizes of memory and files as people read them. */
import type { Transfer } from '@tpulab/protocol';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** For example `512 B`, `11.2 GiB`. */
export function sizeText(bytes: number): string {
  const unit = unitOf(bytes);
  return `${inUnit(bytes, unit)} ${UNITS[unit]}`;
}

/** Used of total, in the unit of the total: `11.2 / 15.8 GiB`. */
export function usageText(usedBytes: number, totalBytes: number): string {
  const unit = unitOf(totalBytes);
  return `${inUnit(usedBytes, unit)} / ${inUnit(totalBytes, unit)} ${UNITS[unit]}`;
}

/** What has come, of how much, and how fast: `1.1 / 2.3 GiB · 42.0 MiB/s`. */
export function transferText({ bytes, totalBytes, bytesPerS }: Transfer): string {
  const amount = totalBytes === null ? sizeText(bytes) : usageText(bytes, totalBytes);
  return bytesPerS === null ? amount : `${amount} · ${sizeText(bytesPerS)}/s`;
}

function unitOf(bytes: number): 0 | 1 | 2 | 3 | 4 {
  if (bytes < 1_000) {
    return 0;
  }
  if (bytes < 1_000 * 1_024) {
    return 1;
  }
  if (bytes < 1_000 * 1_024 ** 2) {
    return 2;
  }
  return bytes < 1_000 * 1_024 ** 3 ? 3 : 4;
}

function inUnit(bytes: number, unit: number): string {
  const value = bytes / 1_024 ** unit;
  return unit === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(1);
}
