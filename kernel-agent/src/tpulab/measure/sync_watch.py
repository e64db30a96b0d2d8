"""Notices that a loop waits for the device: when such a wait ends, and whether each step has one.

jax hands out the value of an array (`float(loss)`, `print(loss)`) by one property, which waits when the
array is not ready. While a loop is measured, this property and `block_until_ready` are watched. Neither
is a promise of jax: when they are removed, nothing is noticed (`tests/runtimes/test_jax_contract.py`).

torch_xla counts reads itself. Only after some steps in a row with a read are the ways to read a tensor
wrapped, until the line is known or some more steps have passed. A read of a tensor that is ready
takes no time; alone it is not mentioned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from tpulab.measure.thread_state import ThreadState, thread_state
from tpulab.runtimes.device_value import guard_delete, is_running
from tpulab.runtimes.torch_xla_runtime import Read, TorchXlaRuntime, Value
from tpulab.telemetry.cells import CellRegister
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.locations import find_location
from tpulab.telemetry.messages import CodeLocation

if TYPE_CHECKING:
    from tpulab.measure.device_clock import DeviceClock
    from tpulab.measure.runs import Run
    from tpulab.telemetry.adviser import Adviser


#: So many steps with a wait at the same line, and none between them in which the line does not read.
STEPS_IN_A_ROW = 20
#: After so many steps in a row with a read, the line that reads is determined.
SUSPICIOUS = 5
#: A run that has not shown one line that waits after so many watched steps is ignored.
MAX_POLLS = 5 * STEPS_IN_A_ROW
#: A read that takes less of a step than this costs too little to mention.
WAIT_SHARE = 0.1


class _Row(NamedTuple):
    """Steps of a run in each of which one line reads a value. `read`, `waited`: the last step in which the
    line read, and the last in which that took time; `waits`: the number of waits."""

    line: tuple[str | None, int | None]
    read: int
    waited: int
    waits: int


class SyncWatch:
    """One per agent."""

    def __init__(self, adviser: Adviser, cells: CellRegister, device: DeviceClock) -> None:
        self._adviser = adviser
        self._device = device
        self._original_wait: Any = None
        self._cells = cells
        self._original: Any = None
        self._unguard: Callable[[], None] = lambda: None
        self._rows: dict[str, _Row] = {}

    def attach(self) -> None:
        """Watches jax's arrays from now on."""
        kind = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
        original = vars(kind).get("_value") if kind is not None else None
        if (
            kind is None
            or self._original is not None
            or not isinstance(original, property)
            or original.fget is None
        ):
            return
        read, watch, device = original.fget, self, self._device

        def value(array: Any) -> Any:
            state = thread_state()
            clocks = state.clocks
            if clocks and clocks[-1].is_open and getattr(array, "_npy_value", 0) is None:
                run = clocks[-1].run
                waits = is_running(array)
                try:
                    # A begun sequence counts reads without a wait too: the host may be late occasionally.
                    if waits or run.id in watch._rows:
                        watch.noticed(run, sys._getframe(1), waited=waits)
                except Exception:  # a failure to read the stack is no reason to fail the loop
                    return read(array)
                if waits and not state.idle:
                    device.wait_begins()
                    try:
                        return read(array)
                    finally:
                        device.wait_ends()
            return read(array)

        self._original = original
        kind._value = property(value, original.fset, original.fdel)
        self._attach_wait(kind)
        self._unguard = guard_delete(kind)

    def _attach_wait(self, kind: Any) -> None:
        wait, device = vars(kind).get("block_until_ready"), self._device
        if not callable(wait):
            return

        def block_until_ready(array: Any) -> Any:
            state = thread_state()
            if not state.clocks or state.idle or not state.clocks[-1].is_open or not is_running(array):
                return wait(array)
            device.wait_begins()
            try:
                return wait(array)
            finally:
                device.wait_ends()

        block_until_ready.__doc__ = wait.__doc__
        self._original_wait = wait
        kind.block_until_ready = block_until_ready

    def detach(self) -> None:
        kind = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
        if self._original is not None and kind is not None:
            kind._value = self._original
            if self._original_wait is not None:
                kind.block_until_ready = self._original_wait
                self._original_wait = None
            self._unguard()
        self._original = None

    def has_reported(self, run: Run) -> bool:
        return self._adviser.has_reported("sync-each-step", run.name)

    def noticed(self, run: Run, frame: FrameType, *, waited: bool = True) -> None:
        """The loop of `run` reads a value at `frame`, in the open step, and has waited for it or not:
        on a busy machine the device may be done before the host reads."""
        if self.has_reported(run):
            return
        location = find_location(self._cells, frame)
        line = (location["file"], location["line"]) if location is not None else (None, None)
        step = run.closed
        row = self._rows.get(run.id)
        if row is not None and row.waited == step:
            return
        goes_on = row is not None and row.line == line and row.read >= step - 1
        if not waited:
            if row is not None and goes_on:
                self._rows[run.id] = row._replace(read=step)
            return
        waits = row.waits + 1 if row is not None and goes_on else 1
        self._rows[run.id] = _Row(line, step, step, waits)
        if waits >= STEPS_IN_A_ROW:
            self._rows.pop(run.id, None)
            self._report(run, location)

    def _report(self, run: Run, location: CodeLocation | None) -> None:
        line = f"Line {location['line']}" if location is not None and location["line"] else run.name
        self._adviser.report(
            "sync-each-step",
            f"{line} reads a device value in every step. Python waits there, and the device goes idle.",
            "Record it with run.log(loss=loss), which reads it later, or read it only every hundredth step.",
            about=run.name,
            location=location,
            run=run.id,
        )


class LazySyncs:
    """For one runtime. Called on the thread of the loop."""

    def __init__(self, runtime: TorchXlaRuntime, syncs: SyncWatch) -> None:
        self._runtime = runtime
        self._syncs = syncs
        self._reads = 0
        self._step: tuple[str, int] = ("", -1)
        self._row = 0
        self._polls = 0
        self._left_alone = ""
        self._unwrap: Callable[[], None] | None = None

    def launched(self, state: ThreadState) -> None:
        """A graph was launched in the open step."""
        run = state.clocks[-1].run
        before, self._step = self._step, (run.id, run.closed)
        if before == self._step or self._left_alone == run.id:
            return  # a step may launch several
        if before[0] != run.id:
            self.detach()
            self._row = self._polls = 0
        # The clock's own reads for the metrics are on none of the user's lines.
        reads = self._runtime.reads() - state.lazy_metrics.reads
        more, self._reads = reads > self._reads, reads
        self._row = self._row + 1 if more else 0
        if self._unwrap is not None:
            self._polls += 1
            if self._polls > MAX_POLLS or self._syncs.has_reported(run):
                self._leave_alone(run)
        elif self._row >= SUSPICIOUS:
            if self._syncs.has_reported(run):
                self._leave_alone(run)
            else:
                self._unwrap = self._runtime.wrap_reads(self._around_read)

    def detach(self) -> None:
        """Restores the wrapped functions."""
        unwrap, self._unwrap = self._unwrap, None
        if unwrap is not None:
            unwrap()

    def _leave_alone(self, run: Run) -> None:
        self._left_alone = run.id
        self.detach()

    def _around_read(self, read: Read) -> Value:
        clocks = thread_state().clocks
        if not clocks or not clocks[-1].is_open:
            return read()
        began = now_ns()
        value = read()
        waited = now_ns() - began > WAIT_SHARE * clocks[-1].usual_ns
        self._syncs.noticed(clocks[-1].run, sys._getframe(2), waited=waited)
        return value
