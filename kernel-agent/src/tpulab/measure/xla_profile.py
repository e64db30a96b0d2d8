"""What the devices did for some seconds, by XLA operation: a trace of jax's profiler, read at once.

The whole trace stays in its folder, for XProf or TensorBoard, until the next one or the kernel's end. On
a TPU the operations are the events of each device's line `XLA Ops`; on the CPU those of the runtime's
threads that name the operation they are. The folder's name has the number of the process: the next trace of
any kernel of this user removes what a killed one has left.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tpulab.runtimes.jax_internals import backends_ready
from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import ProfileMessage, ProfileOperation

_PREFIX = "tpulab-profile-"
_mine: list[Path] = []


def new_folder() -> Path:
    """An empty folder for a trace, in place of the one before it."""
    if not _mine:
        atexit.register(remove_all)
    remove_all()
    _remove_orphans(Path(tempfile.gettempdir()))
    _mine.append(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")))
    return _mine[-1]


def remove_all() -> None:
    """Those of this process."""
    while _mine:
        shutil.rmtree(_mine.pop(), ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            # Those of other users cannot be removed, and are theirs.
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


#: Operations that are told; the trace has all.
SHOWN = 12
NAME_LENGTH = 120


class ProfileError(RuntimeError):
    """A trace cannot be taken; its text says why and what to do."""

    code = "PROFILE_FAILED"


class Operation(NamedTuple):
    name: str
    module: str
    duration_ns: float


def capture(seconds: float) -> ProfileMessage:
    """Traces for so long and reads the trace. Call it on a thread of its own. Raises `ProfileError`."""
    profiler: Any = getattr(sys.modules.get("jax"), "profiler", None)
    if profiler is None or not backends_ready():
        raise ProfileError("JAX has not used a device in this kernel yet.")
    if not hasattr(profiler, "ProfileData"):
        raise ProfileError("This jax cannot read its traces; use jax 0.7 or newer.")
    folder = new_folder()
    try:
        return _captured(profiler, folder, seconds)
    except BaseException:
        remove_all()
        raise


def _captured(profiler: Any, folder: Path, seconds: float) -> ProfileMessage:
    began = time.monotonic()
    try:
        profiler.start_trace(str(folder), **_options(profiler))
    except Exception as error:
        raise ProfileError(
            f"The trace could not start, perhaps because another one is running: {error}"
        ) from error
    ours = _Trace(profiler)
    try:
        time.sleep(seconds)
    finally:
        duration_ms = (time.monotonic() - began) * 1e3
        ours.end()
    if ours.gave_way:
        raise ProfileError("Your program began a trace of its own, and this one gave way to it.")
    traces = sorted(folder.rglob("*.xplane.pb"))
    if not traces:
        raise ProfileError("The profiler left no trace.")
    operations: list[Operation] = []
    devices = 0
    for trace in traces:
        planes = list(profiler.ProfileData.from_file(str(trace)).planes)
        on_devices = [plane for plane in planes if plane.name.startswith("/device:TPU")]
        devices += len(on_devices)
        for plane in on_devices:
            operations += _of_device(plane)
        if not on_devices:
            for plane in planes:
                operations += _of_host(plane)
    return {
        "type": "profile",
        "time": unix_now_ms(),
        "durationMs": duration_ms,
        "folder": str(folder),
        "devices": devices,
        "busyMs": sum(operation.duration_ns for operation in operations) / 1e6,
        "operations": summary(operations),
    }


class _Trace:
    """A trace that runs. It ends as soon as the user's code begins one, as jax has room for one only."""

    def __init__(self, profiler: Any) -> None:
        self._lock = threading.Lock()
        self._stop = profiler.stop_trace
        self._is_over = self.gave_way = False
        self._places: list[Any] = [
            module for module in (profiler, sys.modules.get("jax._src.profiler")) if module is not None
        ]
        self._start = start = profiler.start_trace

        @functools.wraps(start)
        def start_trace(*args: Any, **kwargs: Any) -> Any:
            self.end(gives_way=True)
            return start(*args, **kwargs)

        for module in self._places:
            module.start_trace = start_trace

    def end(self, *, gives_way: bool = False) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over, self.gave_way = True, gives_way
            for module in self._places:
                module.start_trace = self._start
            self._stop()


def summary(operations: Iterable[Operation]) -> list[ProfileOperation]:
    """Those that took most, by name and program, first."""
    found: dict[tuple[str, str], ProfileOperation] = {}
    for name, module, duration_ns in operations:
        entry = found.setdefault((name, module), {"name": name, "module": module, "count": 0, "totalMs": 0.0})
        entry["count"] += 1
        entry["totalMs"] += duration_ns / 1e6
    return sorted(found.values(), key=lambda entry: -entry["totalMs"])[:SHOWN]


def _options(profiler: Any) -> dict[str, Any]:
    """Without the Python tracer, which slows the loop that is looked at."""
    kind = getattr(profiler, "ProfileOptions", None)
    if kind is None:
        return {}
    options = kind()
    options.python_tracer_level = 0
    return {"profiler_options": options}


def _of_device(plane: Any) -> Iterable[Operation]:
    for line in plane.lines:
        if line.name == "XLA Ops":
            for event in line.events:
                # The name is the whole instruction: `%fusion.3 = f32[8]{0} fusion(…)`.
                name = event.name.split(" = ")[0].lstrip("%")
                yield Operation(_short(name), _module(dict(event.stats)), event.duration_ns)


def _of_host(plane: Any) -> Iterable[Operation]:
    for line in plane.lines:
        for event in line.events:
            stats = dict(event.stats)
            if "hlo_op" in stats:
                yield Operation(_short(str(stats["hlo_op"])), _module(stats), event.duration_ns)


def _module(stats: dict[Any, Any]) -> str:
    # `jit_train_step(1234)`: the function, and a fingerprint of the program.
    return _short(re.sub(r"\(\d+\)$", "", str(stats.get("hlo_module", ""))))


def _short(text: str) -> str:
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "…"
