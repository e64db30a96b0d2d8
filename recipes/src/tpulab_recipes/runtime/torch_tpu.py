"""TorchTPU: PyTorch's own device `tpu`, eager and compiled. Needs a chip; nothing here touches one before it
is known.

Waiting for the device on a machine without a chip aborts the process, so the chips are counted first.
`torch.tpu` refuses user code most of what it has (`current_device`, `synchronize` and the like raise);
`torch.accelerator` is the public way to the same.
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

#: What `torch_launch` has set before the processes start. Without it each would be a separate slice.
LAUNCH_VARIABLE = "TORCH_TPU_SLICEBUILDER_ADDRESSES"
#: Parts of torch_tpu that it does not promise; each has a test that calls it.
PRIVATE = (
    "torch.tpu._get_cache_stats",
    "torch_tpu._internal.profiler.profile",
    "torch_tpu._internal.profiler.xprof_trace_handler",
)


class TorchTpuBackend(TorchProcessesBackend):
    name: ClassVar[str] = "torch_tpu"
    transport: ClassVar[str] = "tpu_dist"

    spmd = False

    def __init__(self, platform: Platform | None = None, *, spmd: bool = False) -> None:
        if spmd:
            raise DeviceRuntimeError(
                "unsupported",
                "torch_tpu uses one process for each device "
                "(`python -m tpulab_recipes.runtime.torch_launch`), so there is no `spmd=True`; run this "
                'notebook without it on one device, or with the environment "torch-xla".',
            )
        if platform == "cpu":
            raise DeviceRuntimeError(
                "unsupported",
                'torch_tpu has no CPU backend; choose the backend "torch_xla" or "cpu" for that.',
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
                'environment "torch-xla", which runs the same notebooks on the CPU.',
            )
        self.platform: Platform = "tpu"
        self._profile: AbstractContextManager[Any] | None = None
        self.join()
        # Queried once, here: the thread that transfers batches may have another current device.
        self._device = torch.device("tpu", torch.accelerator.current_device_index())

    def join(self) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not os.environ.get(LAUNCH_VARIABLE):
            raise DeviceRuntimeError(
                "unsupported",
                f"WORLD_SIZE={os.environ['WORLD_SIZE']} is set and {LAUNCH_VARIABLE} is not, which tells the "
                "processes of each other's chips; start them with "
                "`python -m tpulab_recipes.runtime.torch_launch --nproc-per-node N SCRIPT`.",
            )
        super().join()

    def describe(self) -> str:
        from importlib.metadata import version

        world = self.world()
        chip, count = self.devices()[0].kind, world.global_devices
        return f"torch_tpu {version('torch_tpu')} on {chip}, one process for each of {count} devices"

    def device(self) -> Any:
        return self._device

    def devices(self) -> Sequence[DeviceInfo]:
        world, kind = self.world(), self.torch.tpu.get_device_name()
        # A process sees one device; the chips of a slice are of one kind.
        count = max(world.global_devices, self.torch.accelerator.device_count())
        return [DeviceInfo(n, kind, "tpu", n if world.process_count > 1 else 0) for n in range(count)]

    @contextmanager
    def step(self) -> Iterator[None]:
        # Eager operations are submitted one by one, fused ones at the latest when a result is waited for.
        yield

    def sync(self, *values: Any) -> None:  # noqa: ARG002
        self.torch.accelerator.synchronize()

    def compile(self, step: Step, *, name: str | None = None) -> Step:
        options = {"name": name} if name else None
        compiled: Step = self.torch.compile(step, backend="tpu", dynamic=False, options=options)
        return compiled

    def mesh(self, axes: Mapping[str, int] | None = None) -> Any:
        from torch.distributed.device_mesh import init_device_mesh

        if self.world().one_program:
            raise DeviceRuntimeError("unsupported", "A process alone is one device and has no mesh.")
        sizes = dict(axes) if axes is not None else {"data": self.world().global_devices}
        return init_device_mesh("tpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))

    def shard_batch(self, tree: Any, *, parts: int | None = None) -> Any:
        # One process for each device: each reads its own rows (`DistributedSampler`).
        self._parts(tree, parts)
        return self.to_device(tree)

    def replicate(self, tree: Any) -> Any:
        return self.to_device(tree)

    def memory(self) -> Sequence[DeviceMemory]:
        # A process computes on one device (`world`). The allocator counts nothing before its first tensor.
        stats = self.torch.accelerator.memory_stats(self._device.index)
        _, limit = self.torch.accelerator.get_memory_info(self._device.index)
        used, peak = (stats.get(f"allocated_bytes.all.{which}") for which in ("current", "peak"))
        return [DeviceMemory(self._device.index, used, peak, limit or None)]

    def compilations(self) -> Compilations:
        # Eager programs too: each new shape of an operation is one.
        stats = self.torch.tpu._get_cache_stats()
        lasted = sum(each.compilation_duration.total_seconds() for each in stats.per_entry_stats)
        return Compilations(int(stats.num_compilations), lasted)

    def start_trace(self, folder: str) -> None:
        from torch_tpu._internal import profiler

        self._profile = profiler.profile(on_trace_ready=profiler.xprof_trace_handler(folder))
        self._profile.__enter__()

    def stop_trace(self) -> None:
        profile, self._profile = self._profile, None
        if profile is None:
            super().stop_trace()
        else:
            profile.__exit__(None, None, None)

    def _seed_device(self, seed: int) -> None:
        self.torch.tpu.manual_seed_all(seed)

    def device_random_state(self) -> Any:
        # torch 2.13 and newer; before that, `torch.tpu` allows user code this query.
        source = getattr(self.torch.accelerator, "random", self.torch.tpu)
        return source.get_rng_state()

    def set_device_random_state(self, state: Any) -> None:
        self.torch.tpu.set_rng_state(state)

    def _exact_products(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.torch.tpu.precision(self.torch.tpu.Precision.HIGHEST)
        return context
