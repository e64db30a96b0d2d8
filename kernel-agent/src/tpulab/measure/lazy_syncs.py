"""Notices that a loop on a lazy runtime waits for a tensor in each step: `loss.item()`, `float(loss)`.

The runtime counts reads by itself. Only after some steps in a row with a read are the ways to read a tensor
wrapped, until the line is known (`sync_watch` counts the waits) or some more steps have gone by. A read of a
tensor that is there already takes no time; by itself it is not mentioned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tpulab.measure.sync_watch import STEPS_IN_A_ROW, SyncWatch
from tpulab.measure.thread_state import ThreadState, thread_state
from tpulab.runtimes.lazy_runtime import LazyRuntime, Read, Value
from tpulab.telemetry.clocks import now_ns

if TYPE_CHECKING:
    from tpulab.measure.runs import Run

#: So many steps in a row with a read, and it is looked at which line does it.
SUSPICIOUS = 5
#: A run that has not shown one line that waits after so many steps with a look is left alone.
MOST_LOOKS = 5 * STEPS_IN_A_ROW
#: A read that takes less of a step than this costs too little to speak of it.
WAIT_SHARE = 0.1


class LazySyncs:
    """Of one runtime. Called on the thread of the loop."""

    def __init__(self, runtime: LazyRuntime, syncs: SyncWatch) -> None:
        self._runtime = runtime
        self._syncs = syncs
        self._reads = 0
        self._step: tuple[str, int] = ("", -1)
        self._row = 0
        self._looks = 0
        self._left_alone = ""
        self._unwrap: Callable[[], None] | None = None

    def launched(self, state: ThreadState) -> None:
        """A graph was launched in the step that is open."""
        run = state.clocks[-1].run
        before, self._step = self._step, (run.id, run.closed)
        if before == self._step or self._left_alone == run.id:
            return  # a step may launch several
        if before[0] != run.id:
            self.detach()
            self._row = self._looks = 0
        # What the clock itself reads for the metrics is on none of the user's lines.
        reads = self._runtime.reads() - state.lazy_metrics.reads
        more, self._reads = reads > self._reads, reads
        self._row = self._row + 1 if more else 0
        if self._unwrap is not None:
            self._looks += 1
            if self._looks > MOST_LOOKS or self._syncs.has_said(run):
                self._leave_alone(run)
        elif self._row >= SUSPICIOUS:
            if self._syncs.has_said(run):
                self._leave_alone(run)
            else:
                self._unwrap = self._runtime.wrap_reads(self._around_read)

    def detach(self) -> None:
        """Puts back what was wrapped."""
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
