"""A run with its clock, from its first step to its end; and the runs of `with step()` blocks, by place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tpulab.measure.runs import Run
from tpulab.measure.step_clock import StepClock
from tpulab.measure.thread_state import thread_state
from tpulab.measure.tracker import Tracker
from tpulab.telemetry.clocks import now_ns, unix_ms, unix_now_ms
from tpulab.telemetry.locations import find_location
from tpulab.telemetry.messages import BandKind, CodeLocation, RunControl, RunState


class TrackedRun:
    """Ties a run to the tracker. Used on the thread of the loop; `end` may come from a finalizer."""

    def __init__(
        self,
        tracker: Tracker,
        name: str | None,
        total: int | None,
        frame: FrameType,
        control: Callable[[], RunControl | None] | None = None,
    ) -> None:
        location = find_location(tracker.cells, frame)
        self.tracker = tracker
        self.run = Run(name or _default_name(location, frame), total, location, control=control)
        self.clock = StepClock(self.run, tracker.device, tracker.recorder.closed, tracker.wake)
        self.clock.end_run = self.end
        self.on_end: Callable[[], None] | None = None
        self.nested = any(clock.is_open for clock in thread_state().clocks)
        tracker.add_run(self.run)

    def begin_step(self) -> None:
        """A step begins. A run that had ended (with its cell) goes on."""
        if self.run.ended:
            self.run.state = "running"
            self.tracker.add_run(self.run)
        text = self.tracker.text
        if text is not None:
            text.on_step(self.run)
        if self.tracker.between_steps is not None:
            self.tracker.between_steps()
        self.clock.begin()

    def metric(self, values: dict[str, Any]) -> None:
        self.clock.metric(values)

    def band(self, kind: BandKind, began_ns: int, *, failed: bool = False) -> None:
        """Tells of a checkpoint, an evaluation and the like that is just over."""
        in_step = self.clock.is_open
        lasted = now_ns() - began_ns
        if in_step:
            self.clock.add_band(kind, lasted)
            self.run.totals.in_steps += lasted if kind != "transfer" else 0
        self.tracker.recorder.events.append(
            {
                "type": "band",
                "time": unix_now_ms(),
                "run": self.run.id,
                "kind": kind,
                "startTime": unix_ms(began_ns),
                "durationMs": lasted / 1e6,
                "step": self.run.closed,
                "inStep": in_step,
                "failed": failed,
            }
        )
        self.run.totals.add_band(kind, lasted)
        self.tracker.wake()

    def cell_ended(self) -> None:
        """The cell that this run is in is over."""

    def end(self, state: RunState) -> None:
        """The loop is over; a step that is open does not count. Idempotent."""
        self.clock.discard()
        if self.run.ended:
            return
        self.tracker.end_run(self.run, state)
        if self.on_end is not None:
            self.on_end()
        if self.tracker.text is not None:
            self.tracker.text.on_end(self.run, nested=self.nested)


class StepRuns:
    """Runs of `with step()` blocks that have not ended, by thread and place."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, object], TrackedRun] = {}

    def of_block(self, tracker: Tracker, name: str | None, frame: FrameType) -> TrackedRun | None:
        """The run that a block belongs to. None when a block of the same run is open already (recursion)."""
        key = (threading.get_ident(), name or (frame.f_code, frame.f_lineno))
        tracked = self._runs.get(key)
        if tracked is not None and tracked.clock.is_open:
            return None
        if tracked is None or tracked.run.ended or tracked.tracker is not tracker:
            tracked = self._runs[key] = TrackedRun(tracker, name, None, frame)
        return tracked

    def keep(self, tracked: TrackedRun) -> None:
        """A run whose loop is over but which may go on: it ends with the cell of this thread."""
        self._runs[threading.get_ident(), tracked] = tracked

    def of_this_cell(self) -> list[TrackedRun]:
        """Runs that this thread's cell has kept so far, those that are over too."""
        mine = threading.get_ident()
        return [tracked for (thread, _), tracked in self._runs.items() if thread == mine]

    def end_noticed(self) -> None:
        """A run that somebody has named begins on this thread: a loop that was only noticed is over.

        Nobody else says so: its last step would go on until its cell ends, with the whole training in it.
        """
        for tracked in self.of_this_cell():
            if tracked.run.noticed:
                tracked.end("finished")

    def forget(self, tracked: TrackedRun) -> None:
        self._runs = {key: other for key, other in self._runs.items() if other is not tracked}

    def end_all(self, state: RunState, *, thread: int | None = None, tracker: Tracker | None = None) -> None:
        """Ends the runs of a thread (at the end of its cell), or of a tracker (when the process ends)."""
        for key, tracked in list(self._runs.items()):
            if key[0] == thread or tracked.tracker is tracker:
                del self._runs[key]
                tracked.end(state)
                tracked.cell_ended()

    def end_orphans(self) -> None:
        """Ends the runs of threads that have ended: no cell does."""
        living = {thread.ident for thread in threading.enumerate()}
        for key, tracked in list(self._runs.items()):
            if key[0] not in living:
                self._runs.pop(key, None)
                tracked.end("finished")


step_runs = StepRuns()


def on_cell_end(success: bool) -> None:
    """Ends what a cell leaves on this thread: runs of its blocks, and loops that are still referred to."""
    state: RunState = "finished" if success else "failed"
    step_runs.end_all(state, thread=threading.get_ident())
    for clock in list(thread_state().clocks):
        if clock.end_run is not None:
            clock.end_run(state)


def _default_name(location: CodeLocation | None, frame: FrameType) -> str:
    if location is not None and location["function"] is not None:
        return location["function"]
    if location is not None and location["executionCount"] is not None:
        return f"cell {location['executionCount']}"
    return os.path.splitext(os.path.basename(frame.f_code.co_filename))[0] or "steps"
