"""Tracebacks of deep recursion are formatted in part.

IPython inspects the modules and the source of every frame: milliseconds per frame, minutes for 100,000 of
them, and an interrupt does not end that. Readers need only the first and the last frames.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

#: Number of frames at each end of a traceback.
MAX_FRAMES = 100


def shortened(traceback: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A copy without the frames in the middle, and their number; the traceback itself if it is short."""
    chain = []
    while traceback is not None:
        chain.append(traceback)
        traceback = traceback.tb_next
    left_out = max(len(chain) - 2 * MAX_FRAMES, 0)
    if left_out == 0:
        return (chain[0] if chain else None), 0
    copy: TracebackType | None = None
    for each in reversed(chain[:MAX_FRAMES] + chain[-MAX_FRAMES:]):
        copy = TracebackType(copy, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return copy, left_out


def shorten_tracebacks(shell: Any) -> None:
    """For the errors of this shell, including the causes of an error."""
    formatter = shell.InteractiveTB
    whole = formatter.format_exception_as_a_whole

    def in_part(etype: Any, evalue: Any, etb: TracebackType | None, *rest: Any) -> list[list[str]]:
        short, left_out = shortened(etb)
        formatted: list[list[str]] = whole(etype, evalue, short, *rest)
        if left_out > 0 and formatted and formatted[0]:
            note = f"[tpulab: {left_out:,} frames in the middle of this traceback are left out]\n"
            formatted[0].insert(1, note)
        return formatted

    formatter.format_exception_as_a_whole = in_part
