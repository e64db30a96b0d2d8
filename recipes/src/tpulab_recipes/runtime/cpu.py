"""Plain PyTorch on the host CPU, without compiler and chip: the baseline for comparisons.

Several processes form a gloo group of torch.distributed, each with the host CPU as its one device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from tpulab_recipes.runtime.backend import Step
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.figures import Compilations, DeviceInfo, DeviceMemory, Platform
from tpulab_recipes.runtime.torch_base import no_context
from tpulab_recipes.runtime.torch_processes import TorchProcessesBackend


class CpuBackend(TorchProcessesBackend):
    name: ClassVar[str] = "cpu"
    compiles_steps: ClassVar[bool] = False

    #: With one device, one program makes no difference.
    spmd = True

    def __init__(self, platform: Platform | None = None, *, spmd: bool = True) -> None:  # noqa: ARG002
        if platform == "tpu":
            raise DeviceRuntimeError(
                "no_chip",
                'The backend "cpu" has no chip; choose "torch_tpu", "torch_xla" or "jax" for a TPU.',
            )
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise DeviceRuntimeError(
                "framework_missing",
                'The backend "cpu" is plain PyTorch, which is not installed in this environment; run with '
                'the kernel of the environment "torch-xla", or use the backend "jax".',
            ) from error
        self.platform: Platform = "cpu"
        self.join()

    def describe(self) -> str:
        count = self.world().process_count
        processes = "" if count == 1 else f", in {count} processes"
        return f"PyTorch {self.torch.__version__} on the CPU, without XLA{processes}"

    def device(self) -> Any:
        return self.torch.device("cpu")

    def devices(self) -> Sequence[DeviceInfo]:
        return [DeviceInfo(number, "cpu", "cpu", number) for number in range(self.world().process_count)]

    @contextmanager
    def step(self) -> Iterator[None]:
        yield

    def sync(self, *values: Any) -> None:  # noqa: ARG002 - every operation is computed at once
        return

    def compile(self, step: Step, *, name: str | None = None) -> Step:  # noqa: ARG002 - the baseline
        return step

    def mesh(self, axes: Mapping[str, int] | None = None) -> Any:  # noqa: ARG002
        raise DeviceRuntimeError("unsupported", "The CPU without XLA is one device and has no mesh.")

    def shard_batch(self, tree: Any, *, parts: int | None = None) -> Any:
        self._parts(tree, parts)
        return self.to_device(tree)

    def replicate(self, tree: Any) -> Any:
        return self.to_device(tree)

    def memory(self) -> Sequence[DeviceMemory]:
        return [DeviceMemory(self.world().process_index, None, None, None)]

    def compilations(self) -> Compilations:
        return Compilations(0, 0.0)

    def _seed_device(self, seed: int) -> None:  # noqa: ARG002 - PyTorch's own generator is the only one
        return

    def device_random_state(self) -> None:
        return

    def set_device_random_state(self, state: Any) -> None:  # noqa: ARG002
        return

    def _exact_products(self) -> AbstractContextManager[None]:
        return no_context()
