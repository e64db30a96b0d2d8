"""Tracebacks are formatted in part: without hidden frames, and of deep recursion only both ends.

IPython inspects the modules and the source of every frame, also of those that it does not show, such as
jax's: milliseconds per frame, minutes for 100,000 of them, and an interrupt does not end that.
Interactive figures without their package get a note about it.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

#: Number of frames at each end of a traceback.
MAX_FRAMES = 100
_TPULAB_FOLDER = str(Path(__file__).parents[1])
_NO_INTERACTIVE_FIGURES = re.compile(r"'(?:widget|ipympl)' is not a recognised|No module named 'ipympl'")
_IPYMPL = (
    "Interactive figures need the package ipympl: run `%pip install ipympl`, and restart the kernel. "
    "JupyterLab needs it in its own environment too, and then a restart. `%matplotlib inline` needs nothing."
)


def _is_hidden(traceback: TracebackType) -> bool:
    """This package's frames, and those marked `__tracebackhide__`, except where the error arose."""
    if traceback.tb_next is None:
        return False
    frame = traceback.tb_frame
    # jax writes the mark into the frames after the error.
    return frame.f_code.co_filename.startswith(_TPULAB_FOLDER) or bool(
        frame.f_locals.get("__tracebackhide__")
    )


def shortened(traceback: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A copy without hidden and middle frames, and the number of middle frames; a short one unchanged."""
    whole, chain, each = traceback, [], traceback
    hidden = 0
    while each is not None:
        if _is_hidden(each):
            hidden += 1
        else:
            chain.append(each)
        each = each.tb_next
    left_out = max(len(chain) - 2 * MAX_FRAMES, 0)
    if left_out == hidden == 0:
        return whole, 0
    copy: TracebackType | None = None
    for each in reversed(chain if left_out == 0 else chain[:MAX_FRAMES] + chain[-MAX_FRAMES:]):
        copy = TracebackType(copy, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return copy, left_out


def shorten_tracebacks(shell: Any) -> None:
    """For the errors of this shell, including the causes of an error."""
    formatter = shell.InteractiveTB
    whole = formatter.format_exception_as_a_whole

    def in_part(etype: Any, evalue: Any, etb: TracebackType | None, *rest: Any) -> list[list[str]]:
        short, left_out = shortened(etb)
        # Not for other types: the user's code makes their texts.
        is_plain = type(evalue) in (RuntimeError, ModuleNotFoundError) and not hasattr(evalue, "__notes__")
        if is_plain and _NO_INTERACTIVE_FIGURES.search(str(evalue)):
            evalue.add_note(_IPYMPL)
        formatted: list[list[str]] = whole(etype, evalue, short, *rest)
        if left_out > 0 and formatted and formatted[0]:
            note = f"[tpulab: {left_out:,} frames in the middle of this traceback are left out]\n"
            formatted[0].insert(1, note)
        return formatted

    formatter.format_exception_as_a_whole = in_part
