"""Plain PyTorch: eager operations and compiled programs, on the CPU, CUDA or torch_tpu.

It has no graph to launch, unlike a lazy runtime; `torch_watch` works with a few figures of
the device that PyTorch calls its accelerator.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from tpulab.runtimes.jax_internals import backends_ready
from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import DevicesMessage, RuntimeDevice


class Mark:
    """An event in the queue of a device. The device clock waits for it as for an array of jax."""

    size, dtype = 1, None

    def __init__(self, event: Any) -> None:
        self._event = event

    def is_ready(self) -> bool:
        return bool(self._event.query())

    def block_until_ready(self) -> None:
        self._event.synchronize()

    def is_deleted(self) -> bool:
        return False


class TorchRuntime:
    """The interface that `torch_watch` uses. Nothing here initialises a device, waits for one, or raises."""

    def __init__(self) -> None:
        #: kinds of devices that a step has ended on; without one nothing is reported
        self.seen: set[str] = set()

    def mark(self, device_type: str) -> Mark | None:
        """Represents all work queued on the device so far. None: it has no queue, or reports none."""
        self.seen.add(device_type)
        if device_type in ("cpu", "meta", "mps") or not _is_initialized(device_type):
            return None
        torch: Any = sys.modules["torch"]
        try:
            event = torch.Event(device_type)
            event.record()
        except Exception:
            return None
        return Mark(event)

    def eager_programs(self) -> tuple[int, float]:
        """Number of compiled programs so far, and their compile seconds; 0 where they are not counted."""
        # For torch_tpu, whose eager operations are programs too. Private, and guarded.
        if not _is_initialized("tpu"):
            return 0, 0.0
        with contextlib.suppress(Exception):
            stats = sys.modules["torch"].tpu._get_cache_stats()
            seconds = sum(each.compilation_duration.total_seconds() for each in stats.per_entry_stats)
            return int(stats.num_compilations), float(seconds)
        return 0, 0.0

    def devices(self) -> DevicesMessage | None:
        torch: Any = sys.modules.get("torch")
        with contextlib.suppress(Exception):
            kind = next((kind for kind in sorted(self.seen) if kind not in ("cpu", "meta", "xla")), None)
            if kind is not None and _is_initialized(kind):
                found = [_describe(torch, kind, n) for n in range(torch.accelerator.device_count())]
            elif "cpu" in self.seen and not backends_ready():
                kind, found = "cpu", [device_of("cpu", "CPU", 0)]
            else:
                return None
            return devices_message("torch_tpu" if kind == "tpu" else "torch", torch.__version__, kind, found)
        return None


def _is_initialized(kind: str) -> bool:
    # Not `is_available`, which may initialise the device, and which torch_tpu refuses to its users.
    module = getattr(sys.modules.get("torch"), kind, None)
    is_initialized = getattr(module, "is_initialized", None)
    return bool(is_initialized()) if callable(is_initialized) else False


def device_of(
    platform: str,
    kind: str,
    number: int,
    process: int = 0,
    used: int | None = None,
    total: int | None = None,
    peak: int | None = None,
) -> RuntimeDevice:
    """A device as reported; bytes that its runtime does not know (None, or below 0) are left out."""

    def known(count: int | None) -> int | None:
        return int(count) if count is not None and count >= 0 else None

    return {
        "id": number,
        "platform": platform,
        "kind": kind,
        "processIndex": process,
        "memoryUsedBytes": known(used),
        "memoryTotalBytes": known(total),
        "memoryPeakBytes": known(peak),
    }


def devices_message(
    runtime: str, version: object, platform: str, devices: list[RuntimeDevice]
) -> DevicesMessage:
    return {
        "type": "devices",
        "time": unix_now_ms(),
        "runtime": runtime,
        "runtimeVersion": str(version),
        "platform": platform,
        "devices": devices,
    }


def _describe(torch: Any, kind: str, number: int) -> RuntimeDevice:
    device = device_of(kind, str(getattr(torch, kind).get_device_name(number)), number)
    with contextlib.suppress(Exception):
        stats = torch.accelerator.memory_stats(number)
        device["memoryUsedBytes"] = int(stats["allocated_bytes.all.current"])
        device["memoryPeakBytes"] = int(stats["allocated_bytes.all.peak"])
        device["memoryTotalBytes"] = int(torch.accelerator.get_memory_info(number)[1]) or None
    return device
