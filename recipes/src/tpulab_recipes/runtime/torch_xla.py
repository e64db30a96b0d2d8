"""PyTorch/XLA 2.9: lazy tensors on older TPU VMs, and real XLA on the host CPU.

Its modes: by default one device; `spmd=True`, one program over all devices of all processes; inside
`torch_xla.launch`, one process for each device. The mode is chosen before the first tensor and stays.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.backend import Reduction, Step
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.errors import DeviceRuntimeError, several_programs
from tpulab_recipes.runtime.figures import Compilations, DeviceInfo, DeviceMemory, Platform, World
from tpulab_recipes.runtime.torch_base import TorchBackend, no_context
from tpulab_recipes.runtime.torch_group import group_size
from tpulab_recipes.runtime.torch_slices import sharded_axis


class TorchXlaBackend(TorchBackend):
    name: ClassVar[str] = "torch_xla"

    def __init__(self, platform: Platform | None = None, *, spmd: bool = False) -> None:
        self.platform: Platform = _choose_platform(platform)
        _check_group(self.platform, spmd)
        try:
            import torch_xla
            import torch_xla.runtime as xr
        except ImportError as error:
            raise DeviceRuntimeError(
                "framework_missing",
                f"torch_xla cannot be imported here ({error}); run with the kernel of the environment "
                '"torch-xla" (`tpulab env create torch-xla` makes it), which has the torch that fits it.',
            ) from error
        self._torch_xla, self._xr = torch_xla, xr
        #: Parameters of which each device has a slice, by identity.
        self._sharded: set[int] = set()
        self._records = False
        self.spmd = spmd
        if spmd:
            self._start_spmd()
        try:
            self._device = torch_xla.device()
        except RuntimeError as error:
            raise DeviceRuntimeError(
                "no_chip" if self.platform == "tpu" else "unsupported",
                f"torch_xla could not start on PJRT_DEVICE={os.environ['PJRT_DEVICE']}: another process may "
                f"hold the chips (`tpulab devices` shows who). Its error: {str(error).splitlines()[0]}",
            ) from error

    def _start_spmd(self) -> None:
        if self._torch_xla._XLAC._xla_runtime_is_initialized() and not self._xr.is_spmd():
            raise DeviceRuntimeError(
                "too_late",
                "Tensors were made on the device before `spmd=True` was requested; restart the kernel and "
                'call `runtime.use("torch_xla", spmd=True)` first.',
            )
        self._xr.use_spmd()

    def describe(self) -> str:
        world = self.world()
        where = "XLA:CPU" if self.platform == "cpu" else self.devices()[0].kind
        if world.one_program and not self.spmd:
            return f"torch_xla {self._torch_xla.__version__} on {where}, one of {len(self.devices())} devices"
        how = "one program over" if self.spmd else "one process for each of"
        return f"torch_xla {self._torch_xla.__version__} on {where}, {how} {world.global_devices} devices"

    def device(self) -> Any:
        return self._device

    def devices(self) -> Sequence[DeviceInfo]:
        kind = "cpu" if self.platform == "cpu" else f"TPU {self._chip_type()}"
        return [
            DeviceInfo(number, kind, self.platform, attributes.get("process_index", 0))
            for number, attributes in enumerate(self._xr.global_runtime_device_attributes())
        ]

    @staticmethod
    def _chip_type() -> str:
        from torch_xla._internal import tpu

        # Not `version`, which is 5 for a v5e (called v5litepod) and for a v5p.
        chip: str = tpu.get_tpu_type()
        return chip.replace("v5litepod", "v5e")

    def world(self) -> World:
        xr = self._xr
        if self.spmd:
            return World(
                xr.process_index(),
                xr.process_count(),
                xr.addressable_runtime_device_count(),
                xr.global_runtime_device_count(),
                one_program=True,
            )
        count = xr.world_size()
        return World(xr.global_ordinal(), count, 1, count, one_program=count == 1)

    @contextmanager
    def step(self) -> Iterator[None]:
        if self._records:
            yield
            return
        with self._torch_xla.step():
            yield

    @contextmanager
    def recording(self) -> Iterator[None]:
        """In the block steps are traced, as for a TPU, but not submitted to the device (`export_step`)."""
        self._records = True
        try:
            yield
        finally:
            self._records = False

    def sync(self, *values: Any) -> None:  # noqa: ARG002 - the whole graph is handed over, whatever is requested
        import torch_xla.core.xla_model as xm

        self._torch_xla.sync()
        xm.wait_device_ops()

    def compile(self, step: Step, *, name: str | None = None) -> Step:
        # Lazy tracing: one program, one execution a step. `torch.compile(backend="openxla")` makes at least
        # four of forward pass, backward pass and optimizer, and fails on a whole update.
        program: Any = self._torch_xla.compile(step, full_graph=True, name=name)

        @functools.wraps(step)
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._records:
                return step(*args, **kwargs)
            try:
                return program(*args, **kwargs)
            except RuntimeError as error:
                if "Unexpected execution" not in str(error):
                    raise
                raise several_programs() from error

        return cast(Step, run)

    def mesh(self, axes: Mapping[str, int] | None = None) -> Any:
        import torch_xla.distributed.spmd as xs

        self._needs_spmd("A mesh")
        count = self._xr.global_runtime_device_count()
        sizes = dict(axes) if axes is not None else {"data": count}
        if int(np.prod(list(sizes.values()))) != count:
            raise ValueError(f"A mesh {sizes} has not the {count} devices that there are.")
        return xs.Mesh(np.arange(count), tuple(sizes.values()), tuple(sizes))

    def shard_batch(self, tree: Any, *, parts: int | None = None) -> Any:
        chosen = self._parts(tree, parts)
        if not self.spmd:
            return self.to_device(tree)
        copies = self._xr.global_runtime_device_count() // chosen
        mesh = self.mesh({"data": chosen, "copies": copies} if copies > 1 else {"data": chosen})
        return self._map(lambda leaf: self._place(leaf, mesh, "data"), tree)

    def replicate(self, tree: Any) -> Any:
        if not self.spmd:
            return self.to_device(tree)
        mesh = self.mesh()
        return self._map(lambda leaf: self._place(leaf, mesh, None), tree)

    def _place(self, leaf: Any, mesh: Any = None, rows: str | None = None) -> Any:
        """The leaf on the device or, with a mesh, on all devices, its rows divided along the axis `rows`."""
        import torch_xla.core.xla_model as xm
        import torch_xla.distributed.spmd as xs

        leaf = self._narrowed(leaf)
        if not isinstance(leaf, self.torch.Tensor):
            return leaf
        spec = (rows, *(None,) * (leaf.dim() - 1)) if leaf.dim() else ()
        on_host = leaf.device.type == "cpu"
        # Not `.to`, which is traced: a thread that transfers a batch must not add to the program of a step.
        # torch_xla 2.9 cannot send rows that several devices share; `.to` waits for the mark.
        if on_host and (mesh is None or (rows is not None and spec and len(mesh.mesh_shape) == 1)):
            sharding = None if mesh is None else xs.ShardingSpec(mesh, spec)
            return xm.send_cpu_data_to_device([leaf], self._device, sharding)[0]
        if mesh is None:
            return leaf
        placed = leaf.to(self._device)
        xs.mark_sharding(placed, mesh, spec)
        return placed

    def prepare(self, model: Any, *, shard: bool = False) -> Any:
        placed = super().prepare(model)
        if shard:
            self._needs_spmd("Sharding parameters")
            self._sharded = {id(parameter) for parameter in placed.parameters()}
            for parameter in placed.parameters():
                self._slice(parameter)
            self.replicate(dict(placed.named_buffers()))
        elif self.spmd:
            self.replicate(dict(placed.named_parameters()))
            self.replicate(dict(placed.named_buffers()))
        elif not self.world().one_program:
            import torch_xla.core.xla_model as xm

            # Processes may have drawn their first weights apart (threads of one process on v2 and v3 do).
            xm.broadcast_master_param(placed)
        return placed

    @staticmethod
    def scan(step: Any, carry: Any, xs: Any, *, partition_fn: Any) -> Any:
        from torch_xla.experimental import scan

        # torch_xla calls JAX here to give each gradient its parameter's sharding. The environment has no JAX,
        # and XLA infers these shardings from the optimizer's update.
        scan.shard_as = lambda one, other: (one, other)
        return scan.scan(step, carry, xs, partition_fn=partition_fn)

    def divide_rows(self, tensor: Any) -> Any:
        import torch_xla.distributed.spmd as xs

        if not self.spmd or tensor.shape[0] % self._xr.global_runtime_device_count():
            return tensor
        return xs.mark_sharding_with_gradients(tensor, self.mesh(), ("data", *(None,) * (tensor.dim() - 1)))

    def recompute(self, function: Any, *args: Any) -> Any:
        from torch_xla.utils.checkpoint import checkpoint

        # torch's own finds no module torch.xla, and without a barrier XLA would merge the second pass with
        # the first. Seeds are inputs of the program: setting them back compiles nothing.
        return checkpoint(function, *args)

    def shard_optimizer(self, optimizer: Any) -> None:
        for parameter, state in optimizer.state.items():
            if id(parameter) not in self._sharded:
                continue
            self._slice(parameter)
            for value in state.values():
                if isinstance(value, self.torch.Tensor) and value.shape == parameter.shape:
                    self._slice(value)

    def _slice(self, tensor: Any) -> None:
        import torch_xla.distributed.spmd as xs

        axis = sharded_axis(tuple(tensor.shape), self._xr.global_runtime_device_count())
        spec = tuple("data" if place == axis else None for place in range(tensor.dim()))
        xs.clear_sharding(tensor)
        xs.mark_sharding(tensor, self.mesh(), spec)

    def optimizer_step(self, optimizer: Any) -> None:
        import torch_xla.core.xla_model as xm

        if not self.world().one_program:
            xm.reduce_gradients(optimizer)
        optimizer.step()

    def shards(self, array: Any) -> list[NDArray[Any]]:
        if not self.spmd:
            return super().shards(array)
        import torch_xla.distributed.spmd as xs

        self._torch_xla.sync()
        sharded = array if isinstance(array, xs.XLAShardedTensor) else xs.XLAShardedTensor(array)
        with warnings.catch_warnings():
            # A later torch would interpret this indexing differently, but torch_xla requires this torch.
            warnings.filterwarnings("ignore", "Using a non-tuple sequence", UserWarning)
            return [shard.unpadded_data.cpu().numpy() for shard in sharded.local_shards]

    def memory(self) -> Sequence[DeviceMemory]:
        import torch_xla.core.xla_model as xm

        count = self.world().local_devices
        found = []
        for number in range(count):
            try:
                info = xm.get_memory_info(f"xla:{number}")
            # XLA:CPU does not report it; one program knows its first device only.
            except (RuntimeError, IndexError):
                info = {}
            used, peak, limit = (
                info.get(which) for which in ("bytes_used", "peak_bytes_used", "bytes_limit")
            )
            found.append(DeviceMemory(number, used, peak, limit))
        return found

    def compilations(self) -> Compilations:
        from torch_xla.debug import metrics

        count, nanoseconds, _ = metrics.metric_data("CompileTime") or (0, 0.0, ())
        return Compilations(int(count), nanoseconds / 1e9)

    @contextmanager
    def trace_step(self, name: str, number: int) -> Iterator[None]:
        # Not `StepTrace`: it also names the operations of the graph, which the step boundary inside then
        # refuses. `_r` marks an event as the root of a step for the profilers' own pages.
        with self._torch_xla._XLAC.profiler.TraceMe(name, step_num=number, _r=1):
            yield

    @contextmanager
    def trace_span(self, name: str) -> Iterator[None]:
        # Not `Trace`, for the same reason.
        with self._torch_xla._XLAC.profiler.TraceMe(name):
            yield

    def start_trace(self, folder: str) -> None:
        import torch_xla.debug.profiler as xp

        xp.start_trace(folder)

    def stop_trace(self) -> None:
        import torch_xla.debug.profiler as xp

        xp.stop_trace()

    def _seed_device(self, seed: int) -> None:
        self._torch_xla.manual_seed(seed)

    def device_random_state(self) -> Any:
        import torch_xla.core.xla_model as xm

        return xm.get_rng_state()

    def set_device_random_state(self, state: Any) -> None:
        import torch_xla.core.xla_model as xm

        xm.set_rng_state(state)

    def _exact_products(self) -> AbstractContextManager[None]:
        import torch_xla.backends as backends

        # For the process: torch_xla warns of changing it back and forth, and programs keep what they were
        # traced with.
        if (self.platform == "tpu" or self._records) and backends.get_mat_mul_precision() != "highest":
            backends.set_mat_mul_precision("highest")
        return no_context()

    def _reduce_over_processes(self, values: NDArray[np.float64], how: Reduction) -> NDArray[np.float64]:
        import torch_xla.core.xla_model as xm

        reduce: Any = {"mean": np.mean, "sum": np.sum, "max": np.max}[how]
        reduced: NDArray[np.float64] = xm.mesh_reduce(
            "tpulab-metrics", values, lambda parts: reduce(np.stack(parts), axis=0)
        )
        return reduced

    def _needs_spmd(self, what: str) -> None:
        if not self.spmd:
            raise DeviceRuntimeError(
                "too_late",
                f"{what} needs one program over all devices; restart the kernel and begin with "
                '`runtime.use("torch_xla", spmd=True)`.',
            )


def _check_group(platform: Platform, spmd: bool) -> None:
    """On a slice, whose kernel has brought the processes of its hosts together (docs/slices.md), one program
    spans them all. Anything else would train a model on each."""
    from torch import distributed

    # torch_xla's own way with a process for each device has a group of another kind.
    if group_size() == 1 or distributed.get_backend() != "gloo":
        return
    if platform == "cpu":
        raise DeviceRuntimeError(
            "unsupported",
            f"torch_xla finds no other process on a CPU, and this kernel has {group_size()}; use the "
            'backend "cpu", or a kernel of one host.',
        )
    if not spmd:
        raise DeviceRuntimeError(
            "unsupported",
            f"This kernel runs on {group_size()} hosts, and each would train for itself; begin with "
            '`runtime.use("torch_xla", spmd=True)` (in the notebooks: `all_devices = True`).',
        )


def _choose_platform(requested: Platform | None) -> Platform:
    """Sets PJRT_DEVICE before torch_xla is imported, so that it neither guesses nor falls back."""
    chips, set_to = count_chips(), os.environ.get("PJRT_DEVICE", "")
    if requested == "tpu" and chips == 0:
        raise DeviceRuntimeError(
            "no_chip",
            "A TPU was requested and this machine shows no chip (no /dev/accel*, no Google device behind "
            '/dev/vfio); connect to a TPU VM, or ask for the platform "cpu".',
        )
    chosen = (
        requested
        or ({"CPU": "cpu", "TPU": "tpu"}.get(set_to) if set_to else None)
        or ("tpu" if chips else "cpu")
    )
    if set_to and set_to != chosen.upper():
        raise DeviceRuntimeError(
            "wrong_platform",
            f"PJRT_DEVICE={set_to} is set and {chosen} was requested; unset PJRT_DEVICE, or request what it "
            f"names.",
        )
    if chosen == "tpu" and chips == 0:
        raise DeviceRuntimeError(
            "no_chip",
            "PJRT_DEVICE=TPU is set and this machine shows no chip; unset it to run on the CPU.",
        )
    os.environ["PJRT_DEVICE"] = chosen.upper()
    # Errors only: this release's compiler prints a deprecation warning for every sharded program.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return "tpu" if chosen == "tpu" else "cpu"
