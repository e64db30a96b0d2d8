"""The devices' work of some seconds, by XLA operation: a trace of jax's profiler, read by `read_trace`.

The whole trace stays in a folder for XProf or TensorBoard: beside the log of its run, the newest few, or
without one until the next trace or the kernel's end. Such a folder's name has the number of the process: the
next trace of any kernel of this user removes the folders of killed ones.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tpulab.runtimes.jax_internals import backends_ready
from tpulab.telemetry.clocks import unix_now_ms
from tpulab.telemetry.messages import ProfileMessage

_PREFIX = "tpulab-profile-"
_mine: list[Path] = []
#: Number of traces beside one log; each may have 100 MB.
KEPT_TRACES = 4


def new_folder(parent: Path | None = None) -> Path:
    """An empty folder for a trace: in `parent`, or as a replacement of the previous one."""
    if parent is not None:
        with contextlib.suppress(OSError):
            parent.mkdir(parents=True, exist_ok=True)
            for old in sorted(parent.glob("trace-*"))[: 1 - KEPT_TRACES]:
                shutil.rmtree(old, ignore_errors=True)
            stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
            return Path(tempfile.mkdtemp(prefix=f"trace-{stamp}-", dir=parent))
    if not _mine:
        atexit.register(remove_all)
    remove_all()
    _remove_orphans(Path(tempfile.gettempdir()))
    _mine.append(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")))
    return _mine[-1]


def remove_all() -> None:
    """The traces of this process."""
    while _mine:
        shutil.rmtree(_mine.pop(), ignore_errors=True)


def _remove_orphans(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            # Folders of other users cannot be removed, and belong to them.
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


#: Timeout of the process that reads the trace.
READ_TIMEOUT_S = 300.0


class ProfileError(RuntimeError):
    """A trace cannot be taken; its text states why and what to do."""

    code = "PROFILE_FAILED"


def capture(seconds: float, parent: Path | None = None) -> ProfileMessage:
    """Traces for so long and reads the trace, which stays in `parent`. Call it on a separate thread.

    Raises `ProfileError`.
    """
    profiler: Any = getattr(sys.modules.get("jax"), "profiler", None)
    if profiler is None or not backends_ready():
        raise ProfileError("JAX has not used a device in this kernel yet.")
    if not hasattr(profiler, "ProfileData"):
        raise ProfileError("This jax cannot read its traces; use jax 0.7 or newer.")
    folder = new_folder(parent)
    try:
        return _captured(profiler, folder, seconds)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _captured(profiler: Any, folder: Path, seconds: float) -> ProfileMessage:
    began = time.monotonic()
    try:
        profiler.start_trace(str(folder), **_options(profiler))
    except Exception as error:
        if "Only one profile" in str(error):
            raise ProfileError(
                "Your program is tracing itself, and JAX takes one trace at a time."
            ) from error
        raise ProfileError(f"The trace could not start: {error}") from error
    ours = _Trace(profiler)
    try:
        time.sleep(seconds)
    finally:
        duration_ms = (time.monotonic() - began) * 1e3
        ours.end()
    if ours.yielded:
        raise ProfileError("Your program began a trace of its own, and this one gave way to it.")
    traces = sorted(folder.rglob("*.xplane.pb"))
    if not traces:
        raise ProfileError("The profiler left no trace.")
    found = _read(traces)
    return {
        "type": "profile",
        "time": unix_now_ms(),
        "durationMs": duration_ms,
        "folder": str(folder),
        "devices": found["devices"],
        "busyMs": found["busyMs"],
        "operations": found["operations"],
    }


def _read(traces: list[Path]) -> dict[str, Any]:
    """Reads it in another process, which yields to the training."""
    program = [sys.executable, "-P", str(Path(__file__).with_name("read_trace.py"))]
    # It only reads files: the devices belong to the training.
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            ["nice", *program, *map(str, traces)] if shutil.which("nice") else [*program, *map(str, traces)],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=READ_TIMEOUT_S,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise ProfileError(f"The trace could not be read: {last}") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ProfileError(f"The trace could not be read: {error}") from error


class _Trace:
    """A running trace. It ends as soon as the user's code starts one, as jax supports only one at a time."""

    def __init__(self, profiler: Any) -> None:
        self._lock = threading.Lock()
        self._stop = profiler.stop_trace
        self._is_over = self.yielded = False
        self._places: list[Any] = [
            module for module in (profiler, sys.modules.get("jax._src.profiler")) if module is not None
        ]
        self._start = start = profiler.start_trace

        @functools.wraps(start)
        def start_trace(*args: Any, **kwargs: Any) -> Any:
            self.end(yields=True)
            return start(*args, **kwargs)

        for module in self._places:
            module.start_trace = start_trace

    def end(self, *, yields: bool = False) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over, self.yielded = True, yields
            for module in self._places:
                module.start_trace = self._start
            self._stop()


def _options(profiler: Any) -> dict[str, Any]:
    """Without the Python tracer, which slows the traced loop."""
    kind = getattr(profiler, "ProfileOptions", None)
    if kind is None:
        return {}
    options = kind()
    options.python_tracer_level = 0
    return {"profiler_options": options}
