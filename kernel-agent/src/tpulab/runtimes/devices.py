"""The devices that the runtime sees, once the user's code has initialised it. Never initialises it."""

from __future__ import annotations

import contextlib
from typing import Any

from tpulab.runtimes.jax_internals import backends_ready, loaded_jax
from tpulab.runtimes.lazy_runtime import LazyRuntime
from tpulab.runtimes.torch_runtime import EagerRuntime
from tpulab.telemetry.clocks import now_ns, unix_now_ms
from tpulab.telemetry.messages import DevicesMessage, RuntimeDevice

#: Memory figures are read at most once a second.
PERIOD_NS = 1_000_000_000


class DeviceReport:
    """Reads the devices at 1 Hz at most and says when something has changed."""

    def __init__(self) -> None:
        self._next_ns = 0
        #: runtimes of PyTorch that the user has imported; they come before jax, which torch_xla imports too
        self.runtimes: list[LazyRuntime | EagerRuntime] = []
        self.last: DevicesMessage | None = None

    def poll(self) -> DevicesMessage | None:
        """The devices if they, or a figure of them, changed since the last call; else None."""
        if now_ns() < self._next_ns or not (self.runtimes or backends_ready()):
            return None
        self._next_ns = now_ns() + PERIOD_NS
        with contextlib.suppress(Exception):
            message = self.read()
            if message is not None and (self.last is None or message["devices"] != self.last["devices"]):
                self.last = message
                return message
        return None

    def read(self) -> DevicesMessage | None:
        """The devices of the runtime in use, as of now."""
        for runtime in self.runtimes:
            message = runtime.devices()
            if message is not None:
                return message
        return read_devices()


def read_devices() -> DevicesMessage | None:
    """All devices of the default backend; memory of those of this process. None while there is no backend."""
    jax = loaded_jax()
    if jax is None or not backends_ready():
        return None
    return {
        "type": "devices",
        "time": unix_now_ms(),
        "runtime": "jax",
        "runtimeVersion": str(jax.__version__),
        "platform": str(jax.default_backend()),
        "devices": [_describe(device, jax.process_index()) for device in jax.devices()],
    }


def _describe(device: Any, process_index: int) -> RuntimeDevice:
    stats: dict[str, int] = {}
    if device.process_index == process_index:
        # None on XLA:CPU; other backends may not implement it.
        with contextlib.suppress(Exception):
            stats = device.memory_stats() or {}
    return {
        "id": int(device.id),
        "platform": str(device.platform),
        "kind": str(device.device_kind),
        "processIndex": int(device.process_index),
        "memoryUsedBytes": _bytes(stats.get("bytes_in_use")),
        "memoryTotalBytes": _bytes(stats.get("bytes_limit")),
        "memoryPeakBytes": _bytes(stats.get("peak_bytes_in_use")),
    }


def _bytes(value: int | None) -> int | None:
    return int(value) if value is not None and value >= 0 else None
