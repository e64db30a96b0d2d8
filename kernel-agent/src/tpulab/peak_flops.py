"""Peak rates of TPU devices, by the `device_kind` that the runtime reports.

Dense bf16, operations a second for one *device* (a chip of v2, v3 and 7x has two). From the table of chips of
the bridge (`kernel-bridge/src/devices/chip-data.ts`), to which a test holds it.
"""

from __future__ import annotations

PEAK_TYPE = "bf16"
PEAK_FLOPS: dict[str, float] = {
    "TPU v2": 23e12,
    "TPU v3": 61.5e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v5p": 459e12,
    "TPU v6 lite": 918e12,
    "TPU v6e": 918e12,
    "TPU7x": 1153.5e12,
    "TPU 7x": 1153.5e12,
}
