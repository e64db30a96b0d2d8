"""Notices that a loop waits for the device in each step: `float(loss)`, `print(loss)`.

jax hands out the value of an array by one property, which waits when the array is not ready. While a loop is
measured, and until something has been said, a look is taken there. The property is not a promise of jax: when
it is gone, nothing is noticed (`tests/test_jax_contract.py`). Of torch_xla `lazy_syncs` tells.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from tpulab.cells import CellRegister
from tpulab.locations import find_location
from tpulab.messages import CodeLocation
from tpulab.thread_state import thread_state

if TYPE_CHECKING:
    from tpulab.adviser import Adviser
    from tpulab.runs import Run

#: So many steps in a row, each with a wait at the same line.
STEPS_IN_A_ROW = 20


class SyncWatch:
    """One per agent."""

    def __init__(self, adviser: Adviser, cells: CellRegister) -> None:
        self._adviser = adviser
        self._cells = cells
        self._original: Any = None
        self._row: dict[str, tuple[tuple[str | None, int | None], int, int]] = {}

    def attach(self) -> None:
        """Looks at jax's arrays from now on."""
        kind = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
        original = vars(kind).get("_value") if kind is not None else None
        if (
            kind is None
            or self._original is not None
            or not isinstance(original, property)
            or original.fget is None
        ):
            return
        read, watch = original.fget, self

        def value(array: Any) -> Any:
            clocks = thread_state().clocks
            if clocks and clocks[-1].is_open and getattr(array, "_npy_value", 0) is None:
                try:
                    if not array.is_ready():
                        watch.noticed(clocks[-1].run, sys._getframe(1))
                except Exception:  # the user's own access tells what is wrong with the array
                    return read(array)
            return read(array)

        self._original = original
        kind._value = property(value, original.fset, original.fdel)

    def detach(self) -> None:
        kind = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
        if self._original is not None and kind is not None:
            kind._value = self._original
        self._original = None

    def has_said(self, run: Run) -> bool:
        return self._adviser.has_said("sync-each-step", run.name)

    def noticed(self, run: Run, frame: FrameType) -> None:
        """The loop of `run` waits for a value at `frame`, in the step that is open."""
        if self.has_said(run):
            return
        location = find_location(self._cells, frame)
        line = (location["file"], location["line"]) if location is not None else (None, None)
        step = run.closed
        before, last, length = self._row.get(run.id, (line, step - 1, 0))
        if last == step:
            return
        length = length + 1 if before == line and last == step - 1 else 1
        self._row[run.id] = (line, step, length)
        if length >= STEPS_IN_A_ROW:
            self._row.pop(run.id, None)
            self._say(run, location)

    def _say(self, run: Run, location: CodeLocation | None) -> None:
        line = f" (line {location['line']})" if location is not None and location["line"] else ""
        self._adviser.say(
            "sync-each-step",
            f"Each step of {run.name} waits for a value of the device{line}, so the host cannot run ahead.",
            "Record it with run.log(loss=loss), which reads it later, or look at it every hundredth step.",
            about=run.name,
            location=location,
            run=run.id,
        )
