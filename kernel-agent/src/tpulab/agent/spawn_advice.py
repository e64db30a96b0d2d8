"""`xmp.spawn` in a notebook: the kernel has the devices already, and its functions cannot be pickled."""

from __future__ import annotations

import functools
import sys
from typing import Any

from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.locations import find_location

_PLACES = (("torch_xla.distributed.xla_multiprocessing", "spawn"), ("torch_xla", "launch"))


def warn_of_spawn(adviser: Adviser, cells: CellRegister) -> None:
    """Says so when a cell starts processes for its devices. The call goes on as it is."""
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
            adviser.say(
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
