"""Detects the steps of loops without annotations where the framework shows the end of a step.

A step lasts from one launch of a lazy graph, or one call of the same jitted function, to the next one at the
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
from tpulab.runtimes.jax_internals import DispatchHookSlot, is_module_of_jax, program_of_transformation
from tpulab.telemetry.clocks import now_ns
from tpulab.telemetry.locations import is_user_frame

#: Iterations at one place before it counts as a loop.
MIN_TURNS = 5
MIN_STEP_NS = 1_000_000
#: Functions and lines that may alternate in one loop, such as a training step and its evaluation.
MAX_PLACES = 16
Place = tuple[CodeType, int]


class AutoSteps:
    """For the thread that runs cells. Off without a bridge: scripts print only requested output."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        #: the line whose steps are measured
        self._place: Place | None = None
        #: by line: how often it was reached, and when first
        self._turns: dict[Place, tuple[int, int]] = {}
        self._tracked: TrackedRun | None = None
        self._slot: DispatchHookSlot | None = None
        #: functions that were called, by id
        self._called: set[int] = set()
        #: of the function whose calls are the steps
        self._function: int | None = None

    def follow_jax(self) -> None:
        """Makes jax report each call of a compiled function on this thread, which runs the cells."""
        if not self._tracker.is_shown:
            return
        if self._slot is None:
            self._slot = DispatchHookSlot.find()
        if self._slot is not None:
            self._slot.install(self._after_call)

    def _after_call(self, function: Any, _args: Any, _kwargs: Any, _output: Any) -> None:
        called = id(function)
        if not hasattr(function, "__name__"):
            # A derivative of a jitted function, or the like, outside jit: a new object in each step.
            called = id(program_of_transformation(sys._getframe(1)) or function)
        if self._tracked is not None and called != self._function:
            return
        if called not in self._called:
            # Operations of jax itself are no steps. A first call is not inspected.
            is_program = not is_module_of_jax(getattr(function, "__module__", None))
            if is_program and len(self._called) < MAX_PLACES:
                self._called.add(called)
            return
        with contextlib.suppress(Exception):
            self.tick(sys._getframe(2))
            if self._tracked is not None:
                self._function = called

    def cell_begins(self) -> None:
        """Nothing of the previous cell may start a run."""
        self._place, self._tracked, self._function = None, None, None
        self._turns, self._called = {}, set()

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
        if own is not None and tracked is not None:
            # A step may reach another line, for example an evaluation inside the loop.
            if place == self._place:
                if own.is_open:
                    own.end()
                tracked.begin_step()
            return
        if place not in self._turns and len(self._turns) >= MAX_PLACES:
            self._turns.clear()
        turns, first_ns = self._turns.get(place, (0, now_ns()))
        self._turns[place] = (turns + 1, first_ns)
        if turns >= MIN_TURNS and now_ns() - first_ns > (turns + 1) * MIN_STEP_NS:
            if tracker.steered_in is tracker.cells.running():
                # The evaluation between the epochs of an annotated training.
                return
            self._place = place
            self._tracked = tracked = TrackedRun(tracker, None, None, user)
            tracked.run.detected = True
            step_runs.keep(tracked)
            tracked.begin_step()
