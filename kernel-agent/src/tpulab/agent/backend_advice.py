"""Common mistakes in TPU notebooks: the program runs on the CPU although chips exist; or it calls `xmp.spawn`
although the kernel already has the devices and its functions cannot be pickled."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

from tpulab.runtimes.tpu_kind import count_chips
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.locations import find_location
from tpulab.telemetry.messages import DevicesMessage

_PLACES = (("torch_xla.distributed.xla_multiprocessing", "spawn"), ("torch_xla", "launch"))


def warn_of_spawn(adviser: Adviser, cells: CellRegister) -> None:
    """Warns when a cell starts processes for its devices. The call continues unchanged."""
    for module_name, name in _PLACES:
        module = sys.modules.get(module_name)
        original = getattr(module, name, None)
        if module is None or not callable(original) or hasattr(original, "_tpulab_warns"):
            continue
        setattr(module, name, _warning(original, f"{module_name.split('.')[-1]}.{name}", adviser, cells))


def _warning(original: Any, shown: str, adviser: Adviser, cells: CellRegister) -> Any:
    @functools.wraps(original)
    def warns(*args: Any, **kwargs: Any) -> Any:
        single = kwargs.get("nprocs") == 1 or kwargs.get("debug_single_process")
        if cells.running() is not None and not single:
            adviser.report(
                "spawn-in-cell",
                f"{shown} starts a process for each device, but the kernel holds the devices, "
                "and functions defined in a cell cannot be sent to other processes.",
                "Use one process for all devices: xr.use_spmd() and a mesh, or nprocs=1. If the runtime is "
                "already initialized, restart the kernel first.",
                location=find_location(cells, sys._getframe(1)),
            )
        return original(*args, **kwargs)

    warns._tpulab_warns = True  # type: ignore[attr-defined]
    return warns


def advise_on_platform(error: BaseException, adviser: Adviser, root: Path = Path("/")) -> None:
    """Explains the runtime's error about a requested platform that this machine does not have."""
    requested = os.environ.get("JAX_PLATFORMS", "")
    if requested and isinstance(error, RuntimeError) and "Unable to initialize backend" in str(error):
        adviser.report(
            "cpu-backend",
            f"JAX_PLATFORMS is {requested!r}, and this machine has {count_chips(root)} TPU chips.",
            "Remove JAX_PLATFORMS and restart the kernel, or connect to a TPU VM.",
        )


#: A user who sets one of these to the CPU intends it.
_CHOICES = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "PJRT_DEVICE")


def advise_on_backend(devices: DevicesMessage, adviser: Adviser, root: Path = Path("/")) -> None:
    """Warns when the runtime has fallen back to the CPU on a machine with chips."""
    if devices["platform"].lower() != "cpu" or adviser.has_reported("cpu-backend"):
        return
    if any(os.environ.get(name, "").lower() == "cpu" for name in _CHOICES):
        return
    chips = count_chips(root)
    if chips:
        adviser.report(
            "cpu-backend",
            f"This machine has {chips} TPU chips, but {devices['runtime']} runs on its CPU.",
            "Another process may hold the chips, or libtpu is missing: check the Devices panel, "
            "set JAX_PLATFORMS=tpu to see the original error, and restart the kernel.",
        )
