"""Loops that nobody annotated: seen where the framework says when a step is over.

A step goes from one launch of a lazy graph, or one call of the same jitted function, to the next one at the
same line of the same cell. It takes a few in a row to begin, and steps of a millisecond or more, so that
nothing is measured that costs less than the measuring. One line makes it exact: `tpulab.steps(…)`.
"""

from __future__ import annotations

import contextlib
import sys
from types import CodeType, FrameType
from typing import Any

from tpulab.measure.thread_state import thread_state
from tpulab.measure.tracked_run import TrackedRun, step_runs
from tpulab.measure.tracker import Tracker
from tpulab.runtimes.jax_internals import DispatchHookSlot
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.locations import is_user_frame

#: Turns at one place before a loop counts as one.
FEWEST_TURNS = 5
SHORTEST_STEP_NS = 1_000_000
Place = tuple[CodeType, int]


class AutoSteps:
    """Of the thread that runs cells. Off without a bridge: scripts print only what was asked for."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._place: Place | None = None
        self._turns = 0
        self._first_ns = 0
        self._tracked: TrackedRun | None = None
        self._slot: DispatchHookSlot | None = None
        #: calls of one jitted function in a row, the newest of which is the first to be looked at
        self._function: object = None
        self._calls = 0

    def follow_jax(self) -> None:
        """Has jax tell of each call of a compiled function on this thread, which is that of the cells."""
        if not self._tracker.is_shown:
            return
        if self._slot is None:
            self._slot = DispatchHookSlot.find()
        if self._slot is not None:
            self._slot.install(self._after_call)

    def leave_jax(self) -> None:
        if self._slot is not None:
            self._slot.remove()

    def _after_call(self, function: Any, _args: Any, _kwargs: Any, _output: Any) -> None:
        if function is not self._function:
            # Operations of jax itself, and functions that take turns, are no steps.
            module = getattr(function, "__module__", None) or "jax"
            if module.startswith("jax") or self._tracked is not None:
                return
            self._function, self._calls = function, 0
        self._calls += 1
        if self._calls > 1:
            with contextlib.suppress(Exception):
                self.tick(sys._getframe(2))

    def cell_begins(self) -> None:
        """Nothing of the cell before is a reason to begin."""
        self._place, self._turns, self._tracked = None, 0, None
        self._function, self._calls = None, 0

    def tick(self, frame: FrameType | None) -> None:
        """A step may be over at this line. Called on the thread of the loop."""
        tracker, tracked = self._tracker, self._tracked
        if not tracker.is_shown or tracker.cells.running() is None:
            return
        own = tracked.clock if tracked is not None and not tracked.run.ended else None
        if any(clock.is_open and clock is not own for clock in thread_state().clocks):
            return
        user = frame
        while user is not None and not is_user_frame(user):
            user = user.f_back
        if user is None:
            return
        place = (user.f_code, user.f_lineno)
        if place != self._place:
            if own is not None:
                # Another line, for example an evaluation inside the loop: part of the step.
                return
            self._place, self._turns, self._first_ns = place, 0, now_ns()
        self._turns += 1
        if own is not None and tracked is not None:
            if own.is_open:
                own.end()
            tracked.begin_step()
        elif self._turns > FEWEST_TURNS and now_ns() - self._first_ns > self._turns * SHORTEST_STEP_NS:
            if tracker.steered_in is tracker.cells.running():
                # The evaluation between the epochs of a training that somebody has annotated.
                return
            self._tracked = tracked = TrackedRun(tracker, None, None, user)
            tracked.run.noticed = True
            step_runs.keep(tracked)
            tracked.begin_step()
