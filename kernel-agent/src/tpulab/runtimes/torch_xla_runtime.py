"""torch_xla 2.9 as a lazy runtime: one patch point, two counters and two metrics.

Every way to launch a traced graph (`torch_xla.sync`, `xm.mark_step`, `torch_xla.compile`,
`torch_xla.step`, MpDeviceLoader) calls `_XLAC._xla_step_marker`, looked up each time. `ExecuteTime` closes
when the device is done, and stores pairs of end and duration, so device time is known without a
profiler and without a wait. Its duration starts when the program was queued.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tpulab.runtimes.import_hook import AfterImport
from tpulab.runtimes.torch_runtime import device_of, devices_message
from tpulab.runtimes.tpu_kind import tpu_kind
from tpulab.telemetry.messages import DevicesMessage

_MARKER = "_xla_step_marker"
_LOADERS = "torch_xla.distributed.parallel_loader"
_EXECUTE_METRICS = ("ExecuteTime", "ExecuteReplicatedTime")
_EXECUTE_COUNTERS = ("ExecuteComputation", "ExecuteReplicated")
#: The calls that read the one value of a tensor; `print` and formatting go through `item`.
_READS = ("item", "__float__", "__int__", "__bool__")


Launch = Callable[[], Any]
Value = Any
Read = Callable[[], Value]


class Execution(NamedTuple):
    """An executed program: its end, and its duration from the moment it was queued."""

    end_unix_ns: int
    duration_ns: int


class TorchXlaRuntime:
    """The interface for `lazy_watch`. Nothing here initialises the runtime, waits for a device, or raises."""

    name = "torch_xla"

    def __init__(self, root: Path = Path("/")) -> None:
        self._patched: list[tuple[Any, str, Any]] = []
        self._loaders: AfterImport | None = None
        self._root = root

    @property
    def _xlac(self) -> Any:
        return getattr(sys.modules.get("torch_xla"), "_XLAC", None)

    def attach(self, around_launch: Callable[[Launch], Any], around_wait: Callable[[Launch], Any]) -> bool:
        """Routes each launch of a traced graph through `around_launch`, and each wait of a loader for an item
        through `around_wait`; both call their argument. False: the patch point does not exist."""
        original = getattr(self._xlac, _MARKER, None)
        if not callable(original):
            return False

        def marker(*args: Any, **kwargs: Any) -> Any:
            return around_launch(lambda: original(*args, **kwargs))

        self._patch(self._xlac, _MARKER, marker)
        # Accelerate imports the loader long after torch_xla.
        self._loaders = AfterImport(_LOADERS, lambda: self._patch_waits(around_wait))
        self._loaders.install()
        return True

    def detach(self) -> None:
        if self._loaders is not None:
            self._loaders.remove()
        while self._patched:
            owner, name, original = self._patched.pop()
            setattr(owner, name, original)

    def reads(self) -> int:
        """The number of tensor reads so far. Cheap: it is read once per step."""
        return self._counter("aten::_local_scalar_dense")

    def wrap_reads(self, around: Callable[[Read], Value]) -> Callable[[], None]:
        """Routes each such read through `around`. Returns a function that undoes it."""
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        # Inherited from a class in C: removing the attribute restores it.
        names = [name for name in _READS if tensor is not None and name not in vars(tensor)]
        for name in names:
            setattr(tensor, name, _read_through(around, getattr(tensor, name)))

        def unwrap() -> None:
            for name in names:
                if name in vars(tensor):
                    delattr(tensor, name)

        return unwrap

    def compilations(self) -> int:
        """Number of programs compiled so far, including a running one. Cheap: it is read at each launch."""
        return self._counter("UncachedCompile")

    def compile_ns(self) -> int:
        return self._metric("CompileTime")[1]

    def launched(self) -> int:
        return sum(self._counter(name) for name in _EXECUTE_COUNTERS)

    def executions(self) -> tuple[int, Sequence[Execution]]:
        """Number of executed programs, and the newest of them, oldest first."""
        number, found = 0, []
        for name in _EXECUTE_METRICS:
            count, _, samples = self._metric(name)
            number += count
            found += [Execution(int(end * 1e9), int(duration)) for end, duration in samples]
        return number, sorted(found)

    def devices(self) -> DevicesMessage | None:
        xlac = self._xlac
        is_ready = getattr(xlac, "_xla_runtime_is_initialized", None)
        if not callable(is_ready) or not is_ready():
            return None
        with contextlib.suppress(Exception):
            torch_xla: Any = sys.modules["torch_xla"]
            # Not `_xla_get_all_devices`: under SPMD that is the one virtual device.
            names = [str(name) for name in xlac._xla_get_all_runtime_devices()]
            ordinals = {str(name): ordinal for ordinal, name in enumerate(xlac._xla_get_runtime_devices())}
            process = int(xlac._xla_get_process_index())
            platform = names[0].split(":")[0].lower() if names else os.environ.get("PJRT_DEVICE", "").lower()
            kind = self._find_kind(platform)
            devices = [
                # For devices of other processes, which report them themselves, only their existence.
                device_of(
                    platform,
                    kind,
                    index,
                    process if name in ordinals else int(process == 0),
                    *self._memory(ordinals.get(name)),
                )
                for index, name in enumerate(names)
            ]
            return devices_message(self.name, torch_xla.__version__, platform, devices)
        return None

    def _find_kind(self, platform: str) -> str:
        """jax's name of the chip ("TPU v5 lite"), the key of its peak rate."""
        if platform != "tpu":
            return platform.upper()
        with contextlib.suppress(Exception):
            # Refused under SPMD, whose one device is virtual. All devices of a slice are of one kind.
            kind = str(self._xlac._xla_device_kind("xla:0"))
            if kind.upper() != "TPU":
                return kind
        return tpu_kind(self._root) or "TPU"

    def _memory(self, ordinal: int | None) -> tuple[int | None, ...]:
        """Bytes in use, limit and peak of a device of this process; None: of another."""
        used: dict[str, Any] = {}
        # Not implemented on XLA:CPU.
        with contextlib.suppress(Exception):
            if ordinal is not None:
                used = self._xlac._xla_memory_info(f"xla:{ordinal}") or {}
        return used.get("bytes_used"), used.get("bytes_limit"), used.get("peak_bytes_used")

    def _patch_waits(self, around: Callable[[Launch], Any]) -> None:
        # Not `PerDeviceLoader.next`: it launches the graph of the step before it waits. For a DataLoader
        # `torch_watch` sees the waits.
        loader = getattr(sys.modules.get(_LOADERS), "ParallelLoader", None)
        if callable(getattr(loader, "next_item", None)):
            taken = loader.next_item  # type: ignore[union-attr]
            self._patch(loader, "next_item", lambda it, *rest: around(lambda: taken(it, *rest)))

    def _patch(self, owner: Any, name: str, value: Any) -> None:
        self._patched.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _counter(self, name: str) -> int:
        try:
            return int(self._xlac._xla_counter_value(name) or 0)
        except Exception:
            return 0

    def _metric(self, name: str) -> tuple[int, int, Sequence[tuple[float, float]]]:
        try:
            data = self._xlac._xla_metric_data(name)
            return (int(data[0]), int(data[1]), data[2]) if data else (0, 0, ())
        except Exception:
            return 0, 0, ()


def _read_through(
    around: Callable[[Read], Value], original: Callable[[Any], Value]
) -> Callable[[Any], Value]:
    def read(tensor: Any) -> Value:
        if tensor.device.type != "xla":
            return original(tensor)
        return around(lambda: original(tensor))

    return read
