"""The kinds of device that a voice is trained on, and what each computes in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal

from tpulab_recipes.runtime import Backend, DeviceRuntimeError
from tpulab_recipes.runtime.cpu import CpuBackend
from tpulab_recipes.runtime.figures import DeviceInfo, DeviceMemory, Platform

AmpName = Literal["float32", "bfloat16", "float16"]


class DeviceType(Enum):
    CUDA = "cuda"
    MPS = "mps"
    CPU = "cpu"
    TPU = "tpu"

    @staticmethod
    def of(backend: Backend) -> DeviceType:
        """XLA on the host CPU is `CPU`."""
        if backend.platform == "tpu":
            return DeviceType.TPU
        return getattr(backend, "device_type", DeviceType.CPU)

    @property
    def amp(self) -> AmpName:
        """What mixed precision computes products in: bfloat16 has float32's range and needs no scaler."""
        return {"tpu": "bfloat16", "cpu": "float32"}.get(self.value, "float16")  # type: ignore[return-value]


class GraphicsBackend(CpuBackend):
    """PyTorch on one CUDA or MPS device, without XLA. Untested: no such machine was available."""

    def __init__(self, device_type: DeviceType) -> None:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise DeviceRuntimeError(
                "unsupported", f"{device_type.name} is used by one process; unset WORLD_SIZE."
            )
        super().__init__(None)
        self.device_type = device_type
        known = {DeviceType.CUDA: "cuda", DeviceType.MPS: "mps"}
        name = known.get(device_type)
        module = getattr(self.torch.backends if name == "mps" else self.torch, name or "", None)
        if module is None or not module.is_available():
            raise DeviceRuntimeError(
                "no_chip",
                f"PyTorch finds no {device_type.name} device; choose another.",
            )
        self.platform: Platform = "cpu"

    def describe(self) -> str:
        return f"PyTorch {self.torch.__version__} on {self.device_type.name}, without XLA"

    def device(self) -> Any:
        return self.torch.device(self.device_type.value)

    def devices(self) -> Sequence[DeviceInfo]:
        return [DeviceInfo(0, self.device_type.value, "cpu", 0)]

    def sync(self, *values: Any) -> None:  # noqa: ARG002
        getattr(self.torch, self.device_type.value).synchronize()

    def memory(self) -> Sequence[DeviceMemory]:
        torch = self.torch
        if self.device_type is DeviceType.MPS:
            limit = torch.mps.recommended_max_memory()
            return [DeviceMemory(0, torch.mps.current_allocated_memory(), None, limit)]
        total = torch.cuda.get_device_properties(0).total_memory
        return [DeviceMemory(0, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), total)]

    def device_random_state(self) -> Any:
        return getattr(self.torch, self.device_type.value).get_rng_state()

    def set_device_random_state(self, state: Any) -> None:
        getattr(self.torch, self.device_type.value).set_rng_state(state)

    def _seed_device(self, seed: int) -> None:
        getattr(self.torch, self.device_type.value).manual_seed(seed)
