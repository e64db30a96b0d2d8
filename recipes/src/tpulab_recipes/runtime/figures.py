"""Reports of a backend about its devices, processes, memory and compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Platform = Literal["cpu", "tpu"]
PLATFORMS: tuple[Platform, ...] = ("cpu", "tpu")


@dataclass(frozen=True)
class DeviceInfo:
    """One device as the framework numbers it."""

    id: int
    kind: str
    """As the framework calls it: `cpu`, `TPU v5 lite`."""
    platform: Platform
    process_index: int


@dataclass(frozen=True)
class World:
    """The processes and devices of a run. One process drives `local_devices` of `global_devices`."""

    process_index: int
    process_count: int
    local_devices: int
    global_devices: int
    one_program: bool
    """True: every process runs one program over all devices (SPMD) and sees global arrays. False: a process
    has its own arrays, and gradients must be averaged by hand (`optimizer_step` does)."""

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that prints and writes."""
        return self.process_index == 0


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one device in bytes; None where the backend does not report it (XLA:CPU, plain PyTorch)."""

    device: int
    used_bytes: int | None
    peak_bytes: int | None
    limit_bytes: int | None


@dataclass(frozen=True)
class Compilations:
    """The compiler's work in this process so far."""

    count: int
    seconds: float

    def __sub__(self, earlier: Compilations) -> Compilations:
        return Compilations(self.count - earlier.count, self.seconds - earlier.seconds)
