"""How a `for` loop was left, seen from the finalizer of its iterator.

CPython drops the iterator of a loop in the loop's own frame. When it is left by `break`, `return` or `del`,
the instruction that runs is one that pops or stores; when an exception unwinds the frame, it is the one that
raised.
"""

from __future__ import annotations

import dis
from types import CodeType, FrameType

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
