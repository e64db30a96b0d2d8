"""The classic of all TPU notebooks: the chips are there, and the program runs on the CPU."""

from __future__ import annotations

import os
from pathlib import Path

from tpulab.runtimes.chip_presence import count_chips
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.messages import DevicesMessage

#: Whoever sets one of these to the CPU means it.
_CHOICES = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "PJRT_DEVICE")


def advise_on_backend(devices: DevicesMessage, adviser: Adviser, root: Path = Path("/")) -> None:
    """Says so when the runtime has fallen back to the CPU of a machine with chips."""
    if devices["platform"].lower() != "cpu" or adviser.has_said("cpu-backend"):
        return
    if any(os.environ.get(name, "").lower() == "cpu" for name in _CHOICES):
        return
    chips = count_chips(root)
    if chips:
        adviser.say(
            "cpu-backend",
            f"This machine has {chips} TPU chips, but {devices['runtime']} runs on its CPU.",
            "Another process may hold the chips, or libtpu is missing: check the Devices panel, "
            "set JAX_PLATFORMS=tpu to see the original error, and restart the kernel.",
        )
