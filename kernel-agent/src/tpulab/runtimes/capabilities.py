"""The hooks that the agent has found in the loaded packages, for its greeting (`hello`).

A package that is not loaded is not judged. Each check is guarded, and changes nothing.
"""

from __future__ import annotations

import sys
from typing import Any

from tpulab.runtimes.jax_internals import loaded_jax, missing_parts
from tpulab.telemetry.messages import Capability, CapabilityName

#: Names of the parts that `missing_parts` describes in words.
_JAX_PARTS: dict[CapabilityName, str] = {
    "compilations": "compilations",
    "device-time": "device time",
    "waiting-lines": "lines that wait for a device value in each step",
}


def capabilities(kernel: Any, torch_xla_found: bool | None) -> list[Capability]:
    """The capabilities of this process.

    Args:
        kernel: the ipykernel that runs it; None outside one.
        torch_xla_found: whether the hooks of torch_xla were found; None while it is not loaded.
    """
    found: list[Capability] = []
    jax = loaded_jax()
    if jax is not None:
        version = getattr(jax, "__version__", "of unknown version")
        missing = missing_parts()
        for name, words in _JAX_PARTS.items():
            found.append(_of(name, words not in missing, f"jax {version} has no hook known to TPULab."))
        profiler = getattr(jax, "profiler", None)
        has_profiler = all(hasattr(profiler, part) for part in ("start_trace", "stop_trace", "ProfileData"))
        found.append(_of("profiler", has_profiler, f"jax {version} has another profiler."))
    if torch_xla_found is not None:
        version = getattr(sys.modules.get("torch_xla"), "__version__", "of unknown version")
        found.append(_of("torch-xla", torch_xla_found, f"torch_xla {version} has no hooks known to TPULab."))
    if kernel is not None:
        version = getattr(sys.modules.get("ipykernel"), "__version__", "of unknown version")
        subshells = bool(getattr(kernel, "_supports_kernel_subshells", False))
        found.append(
            _of("subshells", subshells, f"ipykernel {version} has no subshells: comms wait for the cell.")
        )
        live = (
            all(hasattr(kernel, name) for name in ("shell_stream", "shell_channel_thread_main"))
            and getattr(kernel, "shell_channel_thread", None) is not None
            and hasattr(getattr(kernel, "_main_asyncio_lock", None), "locked")
        )
        found.append(_of("live-widgets", live, f"ipykernel {version} reads its messages differently."))
    return found


def _of(name: CapabilityName, available: bool, reason: str) -> Capability:
    return {"name": name, "available": available, "reason": None if available else reason}
