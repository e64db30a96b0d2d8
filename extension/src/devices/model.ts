/** A kernel's runtime devices, in words and figures. */
import { type DevicesMessage, type RuntimeDevice, usageText } from '@tpulab/protocol';
import { trans } from '../text/trans.js';

/** From this share a device counts as nearly full: XLA needs room for temporary buffers. */
const NEARLY_FULL = 0.9;

export interface DeviceMemory {
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly fraction: number;
  readonly nearlyFull: boolean;
  readonly text: string;
}

/** `CPU`, `TPU v5 lite`: the kind where it is more specific than the platform. */
export function kindText(device: RuntimeDevice): string {
  const platform = device.platform.toUpperCase();
  return device.kind.toUpperCase() === platform ? platform : device.kind;
}

/** For the status bar: `8 XLA devices, CPU`. */
export function summaryText(message: DevicesMessage): string {
  const [first] = message.devices;
  if (!first) return trans.__('No XLA device');
  const kinds = [...new Set(message.devices.map(kindText))].join(', ');
  return trans._n('%1 XLA device, %2', '%1 XLA devices, %2', message.devices.length, kinds);
}

/** Null where the runtime does not report it, which is ordinary on XLA:CPU. */
export function memoryOf(device: RuntimeDevice): DeviceMemory | null {
  const { memoryUsedBytes: usedBytes, memoryTotalBytes: totalBytes } = device;
  if (usedBytes === null || totalBytes === null || totalBytes === 0) return null;
  return memoryFrom(usedBytes, totalBytes);
}

/** Devices of the CPU share one memory and one set of cores, which users who see eight devices do not expect. */
export function isSimulated(message: DevicesMessage): boolean {
  return message.devices.length > 1 && message.devices.every(device => device.platform === 'cpu');
}

export function memoryFrom(usedBytes: number, totalBytes: number): DeviceMemory {
  const fraction = Math.min(1, usedBytes / totalBytes);
  return {
    usedBytes,
    totalBytes,
    fraction,
    nearlyFull: fraction >= NEARLY_FULL,
    text: usageText(usedBytes, totalBytes)
  };
}
