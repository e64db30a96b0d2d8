"""Arrays that a notebook keeps alive unintentionally: the last traceback and the results in `Out[]`."""

from __future__ import annotations

import contextlib
import gc
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from tpulab.runtimes.device_value import byte_size
from tpulab.runtimes.jax_internals import backends_ready
from tpulab.runtimes.torch_arrays import device_storages
from tpulab.telemetry.cells import notebook_shell

_LAST = ("last_traceback", "last_value", "last_type", "last_exc")
_RECENT = ("_", "__", "___")


def free_retained() -> str:
    """Drops both and collects garbage. Returns the released items, in words. User variables stay."""
    before = live_bytes()
    # The exception has other references (IPython's result of the last cell), so its frames are cleared.
    frames = list(traceback_frames())
    for found in list(_tracebacks()):
        traceback.clear_frames(found)
    for frame in frames:
        # The first read of `f_locals` creates a dictionary, and each later read updates it.
        len(frame.f_locals)
    del frames
    for name in _LAST:
        with contextlib.suppress(AttributeError):
            delattr(sys, name)
    shell = notebook_shell()
    if shell is not None:
        _forget_outputs(shell)
        result = getattr(shell, "last_execution_result", None)
        if result is not None:
            result.result = result.error_in_exec = result.error_before_exec = None
        tracebacks = getattr(shell, "InteractiveTB", None)
        if tracebacks is not None:
            tracebacks.tb = tracebacks.value = None
        for name in ("_last_traceback", "last_syntax_error"):
            if getattr(shell, name, None) is not None:
                setattr(shell, name, None)
    gc.collect()
    freed = max(before - live_bytes(), 0)
    return f"Cleared the last traceback and Out[]; freed {freed / 2**20:.1f} MiB of arrays."


def live_bytes() -> int:
    """Bytes of jax's arrays and of torch's tensors on XLA devices."""
    jax = sys.modules.get("jax")
    found = 0
    with contextlib.suppress(Exception):
        found += sum(one.nbytes for one in device_storages())
    with contextlib.suppress(Exception):
        if jax is not None and backends_ready():
            found += sum(map(byte_size, jax.live_arrays()))
    return found


def _forget_outputs(shell: Any) -> None:
    space = shell.user_ns
    outputs = space.get("_oh")
    numbers = list(outputs) if isinstance(outputs, dict) else []
    for number in numbers:
        value = outputs.pop(number)
        if space.get(f"_{number}") is value:
            del space[f"_{number}"]
        del value
    hook = getattr(shell, "displayhook", None)
    for name in _RECENT:
        # Only the names that IPython keeps: a `_` of the user's own stays.
        if hook is not None and space.get(name, None) is getattr(hook, name, _MISSING):
            space[name] = ""
            setattr(hook, name, "")


_MISSING = object()


def last_traceback() -> TracebackType | None:
    found = getattr(sys, "last_traceback", None)
    return found if isinstance(found, TracebackType) else None


def traceback_frames() -> Iterator[Any]:
    """Frames of the last traceback, with the chain of its causes."""
    for found in _tracebacks():
        current: TracebackType | None = found
        while current is not None:
            yield current.tb_frame
            current = current.tb_next


def _tracebacks() -> Iterator[TracebackType]:
    """The last traceback, and the tracebacks of the exceptions that led to it."""
    first = last_traceback()
    if first is not None:
        yield first
    value = getattr(sys, "last_value", None)
    seen: set[int] = set()
    while isinstance(value, BaseException) and id(value) not in seen:
        seen.add(id(value))
        if value.__traceback__ is not None and value.__traceback__ is not first:
            yield value.__traceback__
        value = value.__cause__ or value.__context__
