"""A run with its clock, from its first step to its end; and the runs of `with step()` blocks, by place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tpulab.measure.runs import Run
from tpulab.measure.step_clock import StepClock, innermost_clock
from tpulab.measure.thread_state import thread_state
from tpulab.measure.tracker import Tracker
from tpulab.telemetry.clocks import now_ns, unix_ms, unix_now_ms
from tpulab.telemetry.locations import find_location
from tpulab.telemetry.messages import BandKind, CodeLocation, RunControl, RunState


class TrackedRun:
    """Connects a run to the tracker. Used on the thread of the loop; `end` may come from a finalizer."""

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
        """A step begins. A run that had ended (with its cell) continues."""
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

    def figures(self, values: dict[str, Any]) -> None:
        """Numbers that are known only after their step count for the newest step, even after the run."""
        step = self.run.closed - 1
        self.tracker.recorder.figures.append((self.run, step, self.clock.figures(values)))
        self.tracker.wake()

    def band(self, kind: BandKind, began_ns: int, *, failed: bool = False) -> None:
        """Reports a checkpoint, an evaluation and the like that has just ended."""
        in_step = self.clock.is_open
        ended_ns = now_ns()
        lasted = ended_ns - began_ns
        if in_step:
            self.clock.add_band(kind, began_ns, ended_ns)
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
        if self.run.throughput is not None:
            self.run.throughput.band(kind, self.run.closed, lasted)
        self.tracker.wake()

    def end(self, state: RunState) -> None:
        """The loop is over; an open step does not count. Idempotent."""
        self.clock.discard()
        step_runs.forget(self)
        if self.run.ended:
            return
        self.tracker.end_run(self.run, state)
        if self.on_end is not None:
            self.on_end()
        if self.tracker.text is not None:
            self.tracker.text.on_end(self.run, nested=self.nested)


class StepRuns:
    """Runs without a loop that have not ended: they end with the cell of their thread, or with the thread."""

    def __init__(self) -> None:
        # By thread, and within it by the place of a block or the run itself. Reentrant: a finalizer may end a
        # run. Held for microseconds: runs are ended after its release.
        self._lock = threading.RLock()
        self._runs: dict[int, dict[object, TrackedRun]] = {}

    def of_block(self, tracker: Tracker, name: str | None, frame: FrameType) -> TrackedRun | None:
        """The run of a block. None when a block of the same run is already open (recursion)."""
        thread, key = threading.get_ident(), name or (frame.f_code, frame.f_lineno)
        with self._lock:
            tracked = self._runs.get(thread, {}).get(key)
        if tracked is not None and tracked.clock.is_open:
            return None
        if tracked is None or tracked.run.ended or tracked.tracker is not tracker:
            tracked = TrackedRun(tracker, name, None, frame)
            with self._lock:
                self._runs.setdefault(thread, {})[key] = tracked
        return tracked

    def keep(self, tracked: TrackedRun) -> None:
        """A run whose loop is over but which may continue: it ends with the cell of this thread."""
        with self._lock:
            self._runs.setdefault(threading.get_ident(), {})[tracked] = tracked

    def of_this_cell(self) -> list[TrackedRun]:
        """Runs of this thread's cell that continue."""
        with self._lock:
            return list(self._runs.get(threading.get_ident(), {}).values())

    def end_detected(self) -> None:
        """A run with a name begins on this thread: a loop that was only detected is over.

        Nothing else ends it: its last step would continue until its cell ends, with the whole training in it.
        """
        for tracked in self.of_this_cell():
            if tracked.run.detected:
                tracked.end("finished")

    def forget(self, tracked: TrackedRun) -> None:
        """The run has ended."""
        with self._lock:
            for thread, mine in list(self._runs.items()):
                for key in [key for key, other in mine.items() if other is tracked]:
                    del mine[key]
                if not mine:
                    del self._runs[thread]

    def end_all(self, state: RunState, *, thread: int | None = None, tracker: Tracker | None = None) -> None:
        """Ends the runs of a thread (at the end of its cell), or of a tracker (when the process ends)."""
        with self._lock:
            found = [
                tracked
                for owner, mine in self._runs.items()
                for tracked in mine.values()
                if owner == thread or tracked.tracker is tracker
            ]
        for tracked in found:
            tracked.end(state)

    def end_orphans(self) -> None:
        """Ends the runs of threads that have ended: no cell does this."""
        with self._lock:
            owners = list(self._runs)
        living = {thread.ident for thread in threading.enumerate()} if owners else set()
        for owner in owners:
            if owner not in living:
                self.end_all("finished", thread=owner)


step_runs = StepRuns()


def current_run() -> Run | None:
    """The run of the step that is open on this thread, or else the newest `tpulab.run` that continues: it may
    evaluate between two steps, or prepare the first one."""
    clock = innermost_clock()
    if clock is not None:
        return clock.run
    running = [tracked.run for tracked in step_runs.of_this_cell() if tracked.run.control is not None]
    return running[-1] if running else None


def on_cell_end(success: bool) -> None:
    """Ends the open runs of a cell on this thread: runs of its blocks, and loops with references."""
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
