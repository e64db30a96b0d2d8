"""What a notebook holds without anybody meaning to: the last traceback and the results in `Out[]`."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any

_LAST = ("last_traceback", "last_value", "last_type", "last_exc")
_RECENT = ("_", "__", "___")


def free_held() -> str:
    """Drops both and collects garbage. Answers what was let go of, in words. User variables stay."""
    before = live_bytes()
    for name in _LAST:
        with contextlib.suppress(AttributeError):
            delattr(sys, name)
    shell = notebook_shell()
    if shell is not None:
        _forget_outputs(shell)
        for name in ("_last_traceback", "last_syntax_error"):
            if getattr(shell, name, None) is not None:
                setattr(shell, name, None)
    gc.collect()
    freed = max(before - live_bytes(), 0)
    return f"The last traceback and Out[] are let go of: {freed / 2**20:.1f} MiB of arrays became free."


def notebook_shell() -> Any:
    """The InteractiveShell of this process, None without one."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if callable(get_ipython) else None


def live_bytes() -> int:
    jax = sys.modules.get("jax")
    if jax is None:
        return 0
    with contextlib.suppress(Exception):
        return sum(array.nbytes for array in jax.live_arrays() if not array.is_deleted())
    return 0


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
        # Only those that IPython keeps: a `_` of the user's own stays.
        if hook is not None and space.get(name, None) is getattr(hook, name, _MISSING):
            space[name] = ""
            setattr(hook, name, "")


_MISSING = object()


def last_traceback() -> TracebackType | None:
    found = getattr(sys, "last_traceback", None)
    return found if isinstance(found, TracebackType) else None


def traceback_frames() -> Iterator[Any]:
    """Frames of the last traceback, with the chain of its causes."""
    value = getattr(sys, "last_value", None)
    seen: set[int] = set()
    traceback = last_traceback()
    while traceback is not None or value is not None:
        current = traceback if traceback is not None else getattr(value, "__traceback__", None)
        while current is not None:
            yield current.tb_frame
            current = current.tb_next
        if value is None or id(value) in seen:
            return
        seen.add(id(value))
        value = value.__cause__ or value.__context__
        traceback = None
