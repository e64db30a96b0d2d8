"""The interface of every backend. Recipes use this and nothing below it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tpulab_recipes.runtime.errors import DeviceRuntimeError
from tpulab_recipes.runtime.figures import Compilations, DeviceInfo, DeviceMemory, Platform, World
from tpulab_recipes.runtime.precision import Precision, PrecisionName
from tpulab_recipes.runtime.prefetch import prefetched
from tpulab_recipes.runtime.trees import tree_leaves, tree_map

Step = TypeVar("Step", bound=Callable[..., Any])
Reduction = Literal["mean", "sum", "max"]
#: The name that a profile shows for a loop's waits for its next batch (`Backend.batches`).
INPUT_NAME = "wait_for_input"
_END = object()


class Backend(ABC):
    """One framework on one kind of device. Made once a process, by `runtime.use`.

    A *tree* is an array or nested dicts, lists and tuples of arrays. Host arrays are NumPy's or, in PyTorch,
    tensors on the host CPU.
    """

    name: ClassVar[str]
    framework: ClassVar[Literal["torch", "jax"]]
    platform: Platform
    #: Whether steps become compiled programs, for which a changing Python number is a new program.
    compiles_steps: ClassVar[bool] = True
    #: Whether `compilations` knows how long they took; otherwise its seconds are 0.
    times_compilations: ClassVar[bool] = True

    @abstractmethod
    def describe(self) -> str:
        """One sentence for people: framework and version, platform, number of devices."""

    @abstractmethod
    def device(self) -> Any:
        """Where new tensors go: a `torch.device`, or the first `jax.Device`."""

    @abstractmethod
    def devices(self) -> Sequence[DeviceInfo]:
        """All devices of all processes, in the framework's order."""

    @abstractmethod
    def world(self) -> World:
        """Processes and devices that take part."""

    @abstractmethod
    def step(self) -> AbstractContextManager[None]:
        """A step boundary: the operations of the block are handed to the device at its end. Does not wait for
        it."""

    @abstractmethod
    def sync(self, *values: Any) -> None:
        """Waits until all pending operations (and `values`) are computed. For clocks and for the end of
        a run."""

    @abstractmethod
    def compile(self, step: Step, *, name: str | None = None) -> Step:
        """`step`, compiled at the first call of each set of shapes; the plain `step` where nothing compiles.

        Give it the whole update: forward pass, backward pass and optimizer. Python numbers that it reads are
        constants of the program, so counters and rates that change stay outside, or are tensors.

        Raises:
            DeviceRuntimeError: `bad_program` at a call, when a backend that makes one program of the step
                finds that it reads a value back.
        """

    @abstractmethod
    def seed(self, seed: int) -> Any:
        """Seeds Python, NumPy and the framework alike in every process; returns a `jax.random.key` in JAX."""

    @abstractmethod
    def to_device(self, tree: Any) -> Any:
        """Host arrays copied to the device. 64-bit floats become 32-bit; other leaves stay as they are."""

    @abstractmethod
    def to_host(self, tree: Any) -> Any:
        """The whole value of every array, copied to the host: what a checkpoint holds. Waits for it."""

    @abstractmethod
    def shard_batch(self, tree: Any, *, parts: int | None = None) -> Any:
        """Copies a batch to the devices, its rows divided among them.

        Args:
            tree: arrays whose first axis counts rows; scalars are copied to every device.
            parts: in how many parts (a divisor of the number of devices); devices that share a part compute
                the same. Default: one part each.

        Raises:
            DeviceRuntimeError: `bad_batch` when the rows cannot be divided evenly.
        """

    @abstractmethod
    def replicate(self, tree: Any) -> Any:
        """Copies arrays to every device whole."""

    @abstractmethod
    def shards(self, array: Any) -> list[NDArray[Any]]:
        """What each device of this process holds of `array`, in the order of the devices."""

    @abstractmethod
    def mesh(self, axes: Mapping[str, int] | None = None) -> Any:
        """The framework's own mesh over all devices; default one axis `data`. The sizes multiply to the
        device count."""

    @abstractmethod
    def memory(self) -> Sequence[DeviceMemory]:
        """Memory of the devices of this process."""

    def peak_memory_bytes(self) -> int | None:
        """The most that a device of this process has held so far; None where it is unknown."""
        return max((each.peak_bytes for each in self.memory() if each.peak_bytes is not None), default=None)

    @abstractmethod
    def compilations(self) -> Compilations:
        """How often the compiler ran in this process, and for how long. Always zero where nothing
        compiles."""

    @abstractmethod
    def precision(self, name: PrecisionName) -> AbstractContextManager[Precision]:
        """Within the block matrix products are made in this precision."""

    @contextmanager
    def trace_step(self, name: str, number: int) -> Iterator[None]:  # noqa: ARG002
        """Marks the block as a step in a profile that is being captured."""
        yield

    @contextmanager
    def trace_span(self, name: str) -> Iterator[None]:  # noqa: ARG002
        """Marks the block by this name in a profile that is being captured; costs next to nothing when none
        is."""
        yield

    def start_trace(self, folder: str) -> None:  # noqa: ARG002
        """Begins a profile, which `stop_trace` writes below `folder` as `plugins/profile/…/*.xplane.pb`."""
        raise DeviceRuntimeError(
            "unsupported", f'The backend "{self.name}" has no profiler that writes such traces.'
        )

    def stop_trace(self) -> None:
        """Ends and writes the profile that runs."""
        raise DeviceRuntimeError("unsupported", "No profile is being captured.")

    @abstractmethod
    def _reduce_over_processes(self, values: NDArray[np.float64], how: Reduction) -> NDArray[np.float64]: ...

    def reduce_metrics(self, metrics: Mapping[str, Any], how: Reduction = "mean") -> dict[str, float]:
        """Figures that are the same in every process: read from the device, and reduced where processes have
        their own."""
        if how not in ("mean", "sum", "max"):
            raise ValueError(f'Metrics are reduced by "mean", "sum" or "max", not {how!r}.')
        names = sorted(metrics)
        read = self.to_host([metrics[name] for name in names])
        values = np.asarray([float(np.asarray(value)) for value in read])
        world = self.world()
        if world.process_count > 1 and not world.one_program and names:
            values = self._reduce_over_processes(values, how)
        return dict(zip(names, (float(value) for value in values), strict=True))

    def own_rows(self, tree: Any) -> Any:
        """This process's share of a global batch: its own rows where each process has one device, else the
        whole batch. Raises `bad_batch` when the rows cannot be divided evenly."""
        return tree

    def own_folder(self, folder: str) -> str:
        """Where this process writes what each needs for itself: `folder` for the main one, whose files the
        others never touch, and a folder in it for every other. Checkpoints are the main one's alone."""
        world = self.world()
        return folder if world.is_main else f"{folder}/host-{world.process_index}"

    def from_main(self, read: Callable[[], Any]) -> Any:
        """The result of `read`, a tree on the host, in every process. In PyTorch the main process reads, and
        sends its result or error to the others: their hosts need not have the files."""
        return read()

    def batches(self, loader: Iterable[Any], *, parts: int | None = None, ahead: int = 2) -> Iterator[Any]:
        """The batches of `loader` on the devices, rows divided; a thread reads and transfers `ahead` of them
        meanwhile (0: no thread).

        Leaving the loop early ends the thread. In a profile each wait of the loop for its batch stands under
        `INPUT_NAME`.
        """
        placed = (self.shard_batch(batch, parts=parts) for batch in loader)
        with prefetched(placed, ahead) as items:
            while True:
                with self.trace_span(INPUT_NAME):
                    batch = next(items, _END)
                if batch is _END:
                    return
                yield batch

    def _parts(self, tree: Any, parts: int | None) -> int:
        """`parts`, checked against the devices and the rows of every array of the batch."""
        count = self.world().global_devices if self.world().one_program else 1
        chosen = count if parts is None else parts
        if chosen < 1 or count % chosen != 0:
            fitting = [number for number in range(1, count + 1) if count % number == 0]
            raise DeviceRuntimeError(
                "bad_batch", f"{count} devices cannot share {chosen} parts; choose one of {fitting}."
            )
        for leaf in tree_leaves(tree):
            shape = tuple(getattr(leaf, "shape", ()))
            if shape and shape[0] % chosen != 0:
                raise DeviceRuntimeError(
                    "bad_batch",
                    f"A batch of {shape[0]} rows cannot be divided among {chosen} parts; drop the last "
                    f"ragged batch, or pad it to a multiple of {chosen} and mask the rows that were added.",
                )
        return chosen

    @staticmethod
    def _map(function: Callable[[Any], Any], tree: Any) -> Any:
        return tree_map(function, tree)
