"""How long a `for` loop is, and that it was left, and how, from the finalizer of what its iterator holds.

CPython drops the iterator of a loop in the loop's own frame. When it is left by `break`, `return` or `del`,
the instruction that runs is one that pops or stores; when an exception unwinds the frame, it is the one that
raised.
"""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType
from typing import Any, Protocol

#: Instructions that drop a value on purpose (3.11 to 3.14; names as in `dis`).
_DROPS = (
    "POP_",
    "END_FOR",
    "SWAP",
    "RETURN_",
    *(f"{act}_{kind}" for act in ("STORE", "DELETE") for kind in ("FAST", "NAME", "GLOBAL", "DEREF")),
)
#: A comprehension is a frame of its own before Python 3.12, and cannot be left but by an exception.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")


def left_by_exception(frame: FrameType | None, loop: CodeType | None) -> bool:
    """True when `frame` is the loop's and an exception is unwinding it. False when in doubt."""
    if loop is not None and loop.co_name in _COMPREHENSIONS:
        return True
    if frame is None or loop is None or frame.f_code is not loop or frame.f_lasti < 0:
        return False
    return not dis.opname[loop.co_code[frame.f_lasti]].startswith(_DROPS)


class Ends(Protocol):
    """What is ended with a loop."""

    @property
    def run(self) -> Any: ...

    def end(self, state: Any) -> None: ...


class LoopGuard:
    """Ends a run when the loop's iterator, which alone holds this, is dropped.

    It is taken away as soon as the run ends in another way. A finalizer that a garbage collection runs
    later, in the middle of another cell, could swallow an interrupt that arrives at that moment.
    """

    __slots__ = ("_loop", "_tracked")

    def __init__(self, tracked: Ends, loop: CodeType) -> None:
        self._tracked: Ends | None = tracked
        self._loop = loop

    def disarm(self) -> None:
        """The loop has come to its end in another way."""
        self._tracked = None

    def __del__(self) -> None:
        # When the interpreter ends, modules may be gone before their objects.
        tracked = self._tracked
        if sys is None or sys.is_finalizing() or tracked is None or tracked.run.ended:
            return
        try:
            tracked.end("failed" if left_by_exception(sys._getframe(1), self._loop) else "finished")
        except Exception:
            return


def length_of(iterable: Any) -> int | None:
    try:
        length = len(iterable)
    except Exception:
        return None
    return length if isinstance(length, int) and length >= 0 else None
