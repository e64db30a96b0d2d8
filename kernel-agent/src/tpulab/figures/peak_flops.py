"""Peak rates of TPU devices, by the `device_kind` that the runtime reports.

Dense bf16, operations a second for one *device* (a chip of v2, v3 and 7x has two). From the table of chips of
the bridge (`kernel-bridge/src/devices/chip-data.ts`), to which a test holds it. A bridge that was given a
table by its user (`--chip-table`) puts the rates of the chips in it into the environment of its kernels.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache

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
    # As torch_tpu calls it.
    "TPU v7": 1153.5e12,
}

#: JSON: operations a second by kind; null takes a rate away.
PEAK_VARIABLE = "TPULAB_PEAK_FLOPS"


def peak_flops(device_kind: str | None) -> float | None:
    """Of one device; None where neither the user's table nor ours has the kind."""
    if device_kind is None:
        return None
    own = _own_rates(os.environ.get(PEAK_VARIABLE, ""))
    return own[device_kind] if device_kind in own else PEAK_FLOPS.get(device_kind)


@cache
def _own_rates(text: str) -> Mapping[str, float | None]:
    """What is no such table is as if there were none: a figure that is shown beside a run must not end it."""
    try:
        table = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(table, dict):
        return {}
    return {
        kind: float(rate) if rate is not None else None
        for kind, rate in table.items()
        if rate is None or (isinstance(rate, (int, float)) and rate > 0)
    }
