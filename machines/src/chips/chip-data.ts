/**
 * Properties of each generation of chips. Figures are for one chip (package), not for one device.
 *
 * Sources: memory, peak rates and interconnect are the published values of Google's Cloud TPU documentation; cores and devices
 * come from JAX's device list for a topology of that chip; the usable memory is the limit that the XLA:TPU compiler of libtpu
 * 0.0.42.1 applied when it compiled programs for each chip. `notes` states where sources differ.
 */
import type { ChipSpec } from '@tpulab/protocol';

const PUBLISHED = 'Cloud TPU documentation; usable memory: compiler limit of libtpu 0.0.42.1';

export const CHIPS: readonly ChipSpec[] = [
  {
    name: 'v2',
    deviceKinds: ['TPU v2'],
    pci: [{ device: '0x0027', subsystem: '0x004e' }],
    tensorCores: 2,
    devices: 2,
    hbmGiB: 16,
    usableGiBPerDevice: 7.48,
    hbmGBPerS: 715,
    iciGBPerS: null,
    topology: '2D',
    tflops: { bf16: 46 },
    chipsPerHost: [4],
    source: PUBLISHED,
    notes: 'the bandwidth is approximate'
  },
  {
    name: 'v3',
    deviceKinds: ['TPU v3'],
    pci: [{ device: '0x0027', subsystem: '0x004f' }],
    tensorCores: 2,
    devices: 2,
    hbmGiB: 32,
    usableGiBPerDevice: 15.48,
    hbmGBPerS: 900,
    iciGBPerS: null,
    topology: '2D',
    tflops: { bf16: 123 },
    chipsPerHost: [4],
    source: PUBLISHED,
    notes: "jax's own table has 140 TFLOP/s and 825 GB/s"
  },
  {
    name: 'v4',
    deviceKinds: ['TPU v4'],
    pci: [{ device: '0x005e', subsystem: null }],
    tensorCores: 2,
    devices: 1,
    hbmGiB: 32,
    usableGiBPerDevice: 30.75,
    hbmGBPerS: 1200,
    iciGBPerS: null,
    topology: '3D',
    tflops: { bf16: 275, int8: 275 },
    chipsPerHost: [4],
    source: PUBLISHED,
    notes: 'both cores make one device (megacore); without it there are two devices of 15.25 GiB'
  },
  {
    name: 'v5e',
    deviceKinds: ['TPU v5 lite', 'TPU v5e'],
    pci: [{ device: '0x0063', subsystem: null }],
    tensorCores: 1,
    devices: 1,
    hbmGiB: 16,
    usableGiBPerDevice: 15.75,
    hbmGBPerS: 819,
    iciGBPerS: 400,
    topology: '2D',
    tflops: { bf16: 197, int8: 393 },
    chipsPerHost: [1, 4, 8],
    source: PUBLISHED,
    notes: null
  },
  {
    name: 'v5p',
    deviceKinds: ['TPU v5', 'TPU v5p'],
    pci: [{ device: '0x0062', subsystem: null }],
    tensorCores: 2,
    devices: 1,
    hbmGiB: 95,
    usableGiBPerDevice: 95.74,
    hbmGBPerS: 2765,
    iciGBPerS: 1200,
    topology: '3D',
    tflops: { bf16: 459, int8: 918 },
    chipsPerHost: [4],
    source: PUBLISHED,
    notes:
      'the published memory is rounded, the compiler takes a little more; jax has 2460 GB/s; the interconnect is inferred'
  },
  {
    name: 'v6e',
    deviceKinds: ['TPU v6 lite', 'TPU v6e'],
    pci: [{ device: '0x006f', subsystem: null }],
    tensorCores: 1,
    devices: 1,
    hbmGiB: 32,
    usableGiBPerDevice: 31.25,
    hbmGBPerS: 1638,
    iciGBPerS: 800,
    topology: '2D',
    tflops: { bf16: 918, int8: 1836 },
    chipsPerHost: [1, 4, 8],
    source: PUBLISHED,
    notes: null
  },
  {
    name: '7x',
    deviceKinds: ['TPU7x', 'TPU 7x', 'TPU v7'],
    pci: [{ device: '0x0076', subsystem: null }],
    tensorCores: 2,
    devices: 2,
    hbmGiB: 192,
    usableGiBPerDevice: 94.75,
    hbmGBPerS: 7400,
    iciGBPerS: null,
    topology: '3D',
    tflops: { bf16: 2307, fp8: 4614 },
    chipsPerHost: [4],
    source: PUBLISHED,
    notes: 'the often quoted 4614 TFLOP/s are for fp8; the bandwidth is approximate'
  }
];
