"""JAX: one program over all devices of all processes."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.backend import Backend, Reduction, Step
from tpulab_recipes.runtime.chips import count_chips
from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.figures import Compilations, DeviceInfo, DeviceMemory, Platform, World
from tpulab_recipes.runtime.precision import Precision, PrecisionName, check_precision

#: Emitted once for each program that XLA compiles (jax.monitoring).
_COMPILED = "/jax/core/compile/backend_compile_duration"


class JaxBackend(Backend):
    name: ClassVar[str] = "jax"
    framework: ClassVar[Literal["torch", "jax"]] = "jax"

    #: JAX always runs one program over all devices.
    spmd = True

    def __init__(self, platform: Platform | None = None, *, spmd: bool = True) -> None:
        if not spmd:
            raise DeviceRuntimeError(
                "unsupported", "JAX runs one program over all devices; leave `spmd` out."
            )
        try:
            import jax
        except ImportError as error:
            raise DeviceRuntimeError(
                "framework_missing",
                "JAX is not installed in this environment; run the notebook with the kernel of the "
                'environment "jax" (`tpulab env create jax` makes it).',
            ) from error
        self._jax = jax
        self._counter = _CompileCounter.of_process(jax)
        found = self._start(platform)
        self.platform: Platform = "tpu" if found == "tpu" else "cpu"
        if platform is not None and platform != self.platform:
            raise self._unavailable(platform, found)
        configured = os.environ.get("JAX_PLATFORMS", "")
        if platform is None and not configured and self.platform == "cpu" and count_chips() > 0:
            raise DeviceRuntimeError(
                "wrong_platform",
                f"This machine has {count_chips()} TPU chips and JAX runs on the CPU: another process "
                "may hold them, or libtpu is missing here. Set JAX_PLATFORMS=tpu to see JAX's own error, or "
                'ask for "cpu".',
            )

    def _start(self, platform: Platform | None) -> str:
        try:
            return str(self._jax.default_backend())
        except RuntimeError as error:
            raise DeviceRuntimeError(
                "no_chip"
                if platform == "tpu" or "tpu" in os.environ.get("JAX_PLATFORMS", "")
                else "unsupported",
                f"JAX found no device of the requested platform "
                f"(JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS')!r}); "
                "unset JAX_PLATFORMS for whatever there is, or run on a machine with a TPU.",
            ) from error

    def _unavailable(self, platform: Platform, found: str) -> DeviceRuntimeError:
        if platform == "tpu":
            return DeviceRuntimeError(
                "no_chip",
                f"A TPU was requested and JAX has only the platform {found!r} ({count_chips()} chips are "
                'visible here); connect to a TPU VM, or ask for the platform "cpu".',
            )
        return DeviceRuntimeError(
            "too_late",
            f"The CPU was requested and JAX has started on {found!r}; set JAX_PLATFORMS=cpu and "
            f"restart the kernel.",
        )

    def describe(self) -> str:
        jax, world = self._jax, self.world()
        where = jax.devices()[0].device_kind if self.platform == "tpu" else "XLA:CPU"
        return (
            f"JAX {jax.__version__} on {where}, {_count(world.global_devices, 'device')}{_processes(world)}"
        )

    def device(self) -> Any:
        return self._jax.local_devices()[0]

    def devices(self) -> Sequence[DeviceInfo]:
        return [
            DeviceInfo(device.id, device.device_kind, self.platform, device.process_index)
            for device in self._jax.devices()
        ]

    def world(self) -> World:
        jax = self._jax
        return World(
            jax.process_index(),
            jax.process_count(),
            jax.local_device_count(),
            jax.device_count(),
            one_program=True,
        )

    @contextmanager
    def step(self) -> Iterator[None]:
        # JAX submits each program when it is called: nothing is left to submit at the end of a step.
        yield

    def sync(self, *values: Any) -> None:
        # Waits for all live arrays of this process: XLA:CPU does not order programs, so there is no last
        # program to wait for.
        self._jax.block_until_ready((values, self._jax.live_arrays()))
        self._jax.effects_barrier()

    def prepare(self, state: Any, *, shard: bool = False, mesh: Any = None) -> Any:
        """The state of a training (parameters, optimizer state, counters: a tree of arrays, the same in every
        process) on the devices of `mesh` (`jax_mesh.make_mesh`; default: all).

        Whole on each or, with `shard`, in slices over the devices of each host, for models that one chip
        cannot hold. `compile(step, state=…)` keeps it so, and `to_host` returns it whole either way.
        """
        from tpulab_recipes.runtime import jax_mesh

        mesh = mesh or jax_mesh.make_mesh()
        places = jax_mesh.state_sharding(mesh, state)
        if not shard:
            places = self._jax.tree.map(lambda _: jax_mesh.replicated(mesh), state)
        return jax_mesh.put_state(state, places)

    def compile(
        self, step: Step, *, name: str | None = None, state: Any = None, mesh: Any = None, more: Any = ()
    ) -> Step:
        """As in all backends. With `state`, as `prepare` has placed it (or its shapes, for slices), the step
        is of the form `step(state, batch, …) -> (state, figures)`: see `jax_mesh.compile_update`. Within it
        `jax_mesh.gathered` gives whole parameters to compute with."""
        if state is not None:
            from tpulab_recipes.runtime import jax_mesh

            placed: Step = jax_mesh.compile_update(step, state, mesh or jax_mesh.make_mesh(), more, name)
            return placed

        def named(*args: Any, **kwargs: Any) -> Any:
            return step(*args, **kwargs)

        named.__name__ = named.__qualname__ = name or str(getattr(step, "__name__", "step"))
        compiled: Step = self._jax.jit(named)
        return compiled

    def seed(self, seed: int) -> Any:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        return self._jax.random.key(seed)

    def to_device(self, tree: Any) -> Any:
        return self._jax.tree.map(lambda leaf: self._jax.device_put(leaf) if _is_array(leaf) else leaf, tree)

    def to_host(self, tree: Any) -> Any:
        return self._jax.tree.map(self._whole, tree)

    def _whole(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._jax.Array):
            return leaf
        if not leaf.is_fully_addressable:
            from jax.experimental import multihost_utils

            leaf = multihost_utils.process_allgather(leaf, tiled=True)
        # A copy: on the host CPU, NumPy would otherwise share memory that the next step may reuse.
        return np.array(leaf)

    def mesh(self, axes: Mapping[str, int] | None = None) -> Any:
        sizes = dict(axes) if axes is not None else {"data": self._jax.device_count()}
        if int(np.prod(list(sizes.values()))) != self._jax.device_count():
            raise ValueError(f"A mesh {sizes} has not the {self._jax.device_count()} devices that there are.")
        devices = np.array(self._jax.devices()).reshape(tuple(sizes.values()))
        return self._jax.sharding.Mesh(devices, tuple(sizes))

    def shard_batch(self, tree: Any, *, parts: int | None = None) -> Any:
        jax, count = self._jax, self._jax.device_count()
        chosen = self._parts(tree, parts)
        mesh = self.mesh({"data": chosen, "copies": count // chosen})
        spec = jax.sharding.PartitionSpec

        def place(leaf: Any) -> Any:
            if not _is_array(leaf):
                return leaf
            rows = spec("data") if np.ndim(leaf) > 0 else spec()
            return jax.make_array_from_callback(
                np.shape(leaf), jax.sharding.NamedSharding(mesh, rows), lambda index: _narrow(leaf)[index]
            )

        return jax.tree.map(place, tree)

    def replicate(self, tree: Any) -> Any:
        jax = self._jax
        everywhere = jax.sharding.NamedSharding(self.mesh(), jax.sharding.PartitionSpec())
        return jax.tree.map(lambda leaf: jax.device_put(leaf, everywhere) if _is_array(leaf) else leaf, tree)

    def shards(self, array: Any) -> list[NDArray[Any]]:
        ordered = sorted(array.addressable_shards, key=lambda shard: shard.device.id)
        return [np.array(shard.data) for shard in ordered]

    def memory(self) -> Sequence[DeviceMemory]:
        found = []
        for device in self._jax.local_devices():
            stats = device.memory_stats() or {}
            found.append(
                DeviceMemory(
                    device.id,
                    stats.get("bytes_in_use"),
                    stats.get("peak_bytes_in_use"),
                    stats.get("bytes_limit"),
                )
            )
        return found

    def compilations(self) -> Compilations:
        return self._counter.read()

    @contextmanager
    def precision(self, name: PrecisionName) -> Iterator[Precision]:
        jax = self._jax
        dtype = {"float32": jax.numpy.float32, "bfloat16": jax.numpy.bfloat16}[check_precision(name)]

        def cast(tree: Any) -> Any:
            return jax.tree.map(
                lambda leaf: (
                    leaf.astype(dtype) if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating) else leaf
                ),
                tree,
            )

        with jax.default_matmul_precision("highest" if name == "float32" else "bfloat16"):
            yield Precision(name, dtype, cast)

    @contextmanager
    def trace_step(self, name: str, number: int) -> Iterator[None]:
        with self._jax.profiler.StepTraceAnnotation(name, step_num=number):
            yield

    @contextmanager
    def trace_span(self, name: str) -> Iterator[None]:
        with self._jax.profiler.TraceAnnotation(name):
            yield

    def start_trace(self, folder: str) -> None:
        self._jax.profiler.start_trace(folder)

    def stop_trace(self) -> None:
        self._jax.profiler.stop_trace()

    def _reduce_over_processes(
        self,
        values: NDArray[np.float64],  # noqa: ARG002 - never called
        how: Reduction,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        raise AssertionError("JAX runs one program over all processes, so its metrics are global already")


class _CompileCounter:
    """Counts the programs that XLA compiles, from when the seam was first used."""

    _only: ClassVar[_CompileCounter | None] = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._seconds = 0.0

    @classmethod
    def of_process(cls, jax: Any) -> _CompileCounter:
        """JAX has no public way to remove a listener, so each process registers only one."""
        if cls._only is None:
            cls._only = cls()
            jax.monitoring.register_event_duration_secs_listener(cls._only.on_event)
        return cls._only

    def on_event(self, event: str, duration: float, **_: Any) -> None:
        if event == _COMPILED:
            with self._lock:
                self._count += 1
                self._seconds += duration

    def read(self) -> Compilations:
        with self._lock:
            return Compilations(self._count, self._seconds)


def _is_array(leaf: Any) -> bool:
    return (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or isinstance(leaf, bool | int | float)


def _narrow(leaf: Any) -> NDArray[Any]:
    array = np.asarray(leaf)
    narrower: Callable[[Any], Any] = {"float64": np.float32, "int64": np.int32}.get(
        array.dtype.name, lambda value: value
    )
    return array.astype(narrower) if isinstance(narrower, type) else array


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _processes(world: World) -> str:
    return "" if world.process_count == 1 else f" in {world.process_count} processes"
