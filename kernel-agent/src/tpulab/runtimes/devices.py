"""The devices that the runtime sees, once the user's code has initialised it. Never initialises it."""

from __future__ import annotations

import contextlib
from typing import Any

from tpulab.runtimes.jax_internals import backends_ready, loaded_jax
from tpulab.runtimes.torch_runtime import TorchRuntime, device_of, devices_message
from tpulab.runtimes.torch_xla_runtime import TorchXlaRuntime
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.messages import DevicesMessage, RuntimeDevice

#: Memory figures are read at most once a second.
PERIOD_NS = 1_000_000_000


class DeviceReport:
    """Reads the devices at 1 Hz at most and reports changes."""

    def __init__(self) -> None:
        self._next_ns = 0
        #: runtimes of PyTorch that the user has imported; they come before jax, which torch_xla imports too
        self.runtimes: list[TorchXlaRuntime | TorchRuntime] = []
        self.last: DevicesMessage | None = None

    def poll(self) -> DevicesMessage | None:
        """The devices if they, or one of their figures, changed since the last call; else None."""
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
        """The current devices of the runtime in use."""
        for runtime in self.runtimes:
            message = runtime.devices()
            if message is not None:
                return message
        return read_devices()


def read_devices() -> DevicesMessage | None:
    """All devices of the default backend; memory only of this process's. None while there is no backend."""
    jax = loaded_jax()
    if jax is None or not backends_ready():
        return None
    devices = [_describe(device, jax.process_index()) for device in jax.devices()]
    return devices_message("jax", jax.__version__, str(jax.default_backend()), devices)


def _describe(device: Any, process_index: int) -> RuntimeDevice:
    stats: dict[str, int] = {}
    if device.process_index == process_index:
        # None on XLA:CPU; other backends may not implement it.
        with contextlib.suppress(Exception):
            stats = device.memory_stats() or {}
    figures = (stats.get(name) for name in ("bytes_in_use", "bytes_limit", "peak_bytes_in_use"))
    about = str(device.platform), str(device.device_kind), int(device.id), int(device.process_index)
    return device_of(*about, *figures)
