"""TorchTPU: PyTorch's own device `tpu`, eager and compiled. Needs a chip; nothing here touches one before it
is known.

Initialising the device on a machine without a chip aborts the process, so the chips are counted first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from tpulab_recipes.runtime.backend import Step
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.figures import Compilations, DeviceInfo, DeviceMemory, Platform
from tpulab_recipes.runtime.torch_processes import TorchProcessesBackend

#: What this backend calls and only a machine with a chip can show to work; docs/runtime.md lists them by
#: name.
NEEDS_A_CHIP = (
    "device",
    "devices",
    "to_device",
    "to_host",
    "step",
    "sync",
    "compile",
    "seed on the device",
    "shard_batch",
    "replicate",
    "shards",
    "mesh",
    "prepare",
    "prepare with shard=True",
    "optimizer_step",
    "memory",
    "compilations",
    "precision",
    "reduce_metrics over processes",
)

#: What the other backends for chips offer and this one does not, as docs/runtime.md names it. The first three
#: are refused with the code `unsupported`.
NOT_OFFERED = ("spmd=True", "start_trace", "stop_trace", "the seconds of compilations", "the memory in use")


class TorchTpuBackend(TorchProcessesBackend):
    name: ClassVar[str] = "torch_tpu"
    transport: ClassVar[str] = "tpu_dist"
    times_compilations: ClassVar[bool] = False

    spmd = False

    def __init__(self, platform: Platform | None = None, *, spmd: bool = False) -> None:
        if spmd:
            raise DeviceRuntimeError(
                "unsupported",
                "torch_tpu uses one process for each device (`python -m torch.distributed.run`), so there is "
                "no "
                "`spmd=True`; run this notebook without it on one device, or with the environment "
                '"torch-xla".',
            )
        if platform == "cpu":
            raise DeviceRuntimeError(
                "unsupported",
                'torch_tpu has no processor backend; choose the backend "torch_xla" or "cpu" for that.',
            )
        try:
            import torch
            import torch_tpu  # noqa: F401
        except ImportError as error:
            raise DeviceRuntimeError(
                "framework_missing",
                f"torch_tpu cannot be imported here ({error}); run with the kernel of the environment "
                '"torch-tpu" (`tpulab env create torch-tpu` makes it).',
            ) from error
        if not hasattr(torch, "tpu"):
            raise DeviceRuntimeError(
                "framework_missing",
                "torch_tpu is installed and PyTorch did not load it; unset TORCH_DEVICE_BACKEND_AUTOLOAD "
                f"(it is {os.environ.get('TORCH_DEVICE_BACKEND_AUTOLOAD')!r}) and restart the kernel.",
            )
        if count_chips() == 0:
            raise DeviceRuntimeError(
                "no_chip",
                "torch_tpu needs a TPU and this machine shows no chip; connect to a TPU VM, or use the "
                "environment "
                '"torch-xla", which runs the same notebooks on the processor.',
            )
        self.platform: Platform = "tpu"
        self.join()
        # Asked once, here: the thread that transfers batches may have another current device.
        self._device = torch.device("tpu", torch.tpu.current_device())

    def describe(self) -> str:
        from importlib.metadata import version

        world = self.world()
        chip, count = self.devices()[0].kind, world.global_devices
        return f"torch_tpu {version('torch_tpu')} on {chip}, one process for each of {count} devices"

    def device(self) -> Any:
        return self._device

    def devices(self) -> Sequence[DeviceInfo]:
        tpu = self.torch.tpu
        rank = self.world().process_index
        return [DeviceInfo(n, tpu.get_device_name(n), "tpu", rank) for n in range(tpu.device_count())]

    @contextmanager
    def step(self) -> Iterator[None]:
        # Eager operations are handed over one by one, fused ones at the latest when somebody waits.
        yield

    def sync(self, *values: Any) -> None:  # noqa: ARG002
        self.torch.tpu.synchronize()

    def compile(self, step: Step, *, name: str | None = None) -> Step:  # noqa: ARG002
        compiled: Step = self.torch.compile(step, backend="tpu", dynamic=False)
        return compiled

    def mesh(self, axes: Mapping[str, int] | None = None) -> Any:
        from torch.distributed.device_mesh import init_device_mesh

        sizes = dict(axes) if axes is not None else {"data": self.world().global_devices}
        return init_device_mesh("tpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))

    def shard_batch(self, tree: Any, *, parts: int | None = None) -> Any:
        # One process for each device: each reads its own rows (`DistributedSampler`).
        self._parts(tree, parts)
        return self.to_device(tree)

    def replicate(self, tree: Any) -> Any:
        return self.to_device(tree)

    def memory(self) -> Sequence[DeviceMemory]:
        tpu = self.torch.tpu
        # A process computes on one device (`world`). torch_tpu 0.2.0 does not say how much of its memory is
        # in use; the bridge's device panel does.
        number = tpu.current_device()
        total = getattr(tpu.get_device_properties(number), "total_memory", None)
        return [DeviceMemory(number, None, None, total)]

    def compilations(self) -> Compilations:
        # A private counter, and the only one that there is; it has no times.
        misses = getattr(self.torch.tpu, "_get_cache_misses", None)
        if misses is None:
            raise DeviceRuntimeError(
                "unsupported",
                "This torch_tpu does not count compilations (torch.tpu._get_cache_misses is gone), and 0 "
                "would be wrong; make the environment again with `tpulab env create torch-tpu --force`, "
                "which takes a release that does.",
            )
        return Compilations(int(misses()), 0.0)

    def _seed_device(self, seed: int) -> None:
        self.torch.tpu.manual_seed_all(seed)

    def device_random_state(self) -> Any:
        return self.torch.tpu.get_rng_state()

    def set_device_random_state(self, state: Any) -> None:
        self.torch.tpu.set_rng_state(state)

    def _exact_products(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.torch.tpu.precision(self.torch.tpu.Precision.HIGHEST)
        return context
