"""Measures the steps of one run on one thread. Costs a few microseconds a step; never waits for the device.

The clock only notes moments. `recorder` works out the spans later, on the agent's thread, when the device
clock knows until when the device ran.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpulab.figures.spans import StepTimes
from tpulab.measure.thread_state import Clock, ThreadState, thread_state
from tpulab.runtimes.device_value import all_ready
from tpulab.runtimes.jax_internals import DispatchHookSlot, loaded_jax
from tpulab.runtimes.lazy_metrics import LazyMetric, taken
from tpulab.telemetry.clocks import now_ns

if TYPE_CHECKING:
    from tpulab.measure.device_clock import DeviceClock
    from tpulab.measure.runs import Run
    from tpulab.telemetry.messages import RunState

#: The share of a step that measuring it may take, and how much of that the clock's own calls take
#: (nanoseconds, measured on a small machine). The rest is for the waits of the device clock.
MEASURING_SHARE = 0.008
CLOCK_COST_NS = 5_000
#: What a wait costs the user's thread, as a multiple of the processor time it takes (measured: 1.2 to 1.5,
#: for the hand-over of the interpreter lock).
WATCH_COST_FACTOR = 1.5
#: What watching a step costs the user's thread where nobody is woken, beside the clock's own calls.
ASLEEP_COST_NS = 12_000
#: However short the steps are, not many more than so many are left out in a row.
LONGEST_SKIP = 70
#: The first steps of a loop are all watched: enough for the device clock to learn that it need not wait.
FIRST_STEPS = 48
#: Where not every step is watched, so many in a row are: the one before them must be posted too, so that it
#: is known how long the device is busy with what came earlier.
WATCHED_IN_A_ROW = 4
#: The share of a step, at its start, of which the device's state need not be known.
UNSURE_SHARE = 0.02
#: A loop whose thread has started no program for so many steps may well have its work started elsewhere.
STEPS_WITHOUT = 32
#: Fraction of the golden ratio, whose multiples are spread evenly: leaving out always the same number of
#: steps would meet the same one of a loop that logs every tenth, each time or never.
SPREAD = 0.618034


class ClosedStep:
    """Raw moments of a finished step, on their way to the recorder."""

    __slots__ = ("bands", "index", "metrics", "post", "run", "times", "watched")

    def __init__(
        self,
        run: Run,
        index: int,
        times: StepTimes,
        watched: bool,
        post: int,
        metrics: dict[str, Any] | None,
        bands: list[tuple[str, int, int]] | None = None,
    ) -> None:
        self.run = run
        self.index = index
        self.times = times
        #: whether the device clock saw every program that the step started
        self.watched = watched
        self.post = post
        self.metrics = metrics
        #: checkpoints and the like inside the step: kind, begin and end
        self.bands = bands


class StepClock:
    """The clock of one run. `begin`, `body`, `end` are called in turn on the thread of the loop."""

    def __init__(
        self, run: Run, device: DeviceClock, closed: deque[ClosedStep], wake: Callable[[], None]
    ) -> None:
        self.run = run
        self._device = device
        self._closed = closed
        self._wake = wake
        self._state = thread_state()
        self._start = 0
        self._body = 0
        self._dispatches = 0
        self._programs = 0
        self._explicit = False
        #: whether the programs of the open step are posted to the device clock
        self.is_watching = True
        self._known_at_start = True
        #: steps in a row that started no program
        self._steps_without = STEPS_WITHOUT
        self._metrics: dict[str, Any] | None = None
        self._bands: list[tuple[str, int, int]] | None = None
        self._usual_ns = 0.0
        self._planned = 0
        self._waits = device.waits
        #: waits that a posted step takes, in the mean: several steps that queue up are one wait
        self._waits_a_step = 1.0
        #: steps to come that are not watched; of the last of them the programs are posted all the same
        self._skip = 0
        #: steps to come that are watched before it is planned again
        self._in_a_row = FIRST_STEPS
        self._spread = 0.0
        #: steps for which nobody was woken, since it was last learned
        self._asleep = 0
        self.is_open = False
        #: ends the run that is measured
        self.end_run: Callable[[RunState], None] | None = None

    @property
    def usual_ns(self) -> float:
        """What a step of late took, in the mean; 0 before the first one has ended."""
        return self._usual_ns

    def begin(self) -> None:
        """A step begins: the loop asks for its next item."""
        state = self._state = thread_state()
        if state.lazy_metrics:
            state.lazy_metrics.read_settled(self._device.is_settled)
        clocks = state.clocks
        if not clocks or clocks[-1] is not self:
            self._enter(clocks)
        if self._skip <= 1:
            self._watch_step(state)
        else:
            self.is_watching = False
        if state.hook is None:
            self._install_hook(state)
        self._metrics = None
        self._bands = None
        self.is_open = True
        self._start = self._body = now_ns()

    def _watch_step(self, state: ThreadState) -> None:
        if not self.is_watching:
            # Waits for programs that were posted earlier are no cost of the steps that begin here.
            self._waits = self._device.waits
        self.is_watching = True
        state.idle = False
        if state.hook is not None:
            state.hook.install(self._on_dispatch_of_thread)
        self._known_at_start = state.device_known_since is not None
        self._dispatches = state.dispatches
        self._programs = state.programs_compiled
        self._explicit = False
        if self.run.pace is not None:
            self.run.pace.step_begins()

    def body(self) -> None:
        """The item is there: the body of the loop begins."""
        self._body = now_ns()

    def end(self) -> None:
        """The step is over. It is handed to the recorder."""
        end = now_ns()
        state, start, metrics = self._state, self._start, self._metrics
        self.is_open = False
        watched = self.is_watching and self._end_of_watched(state, end)
        started = state.last_dispatch
        compiles = state.compiles
        times = _new_times(
            StepTimes,
            (
                start,
                self._body,
                end,
                state.compiles_since(start) if compiles and compiles[-1][1] > start else (),
                started if started >= start else None,
                state.waits_since(start) if state.waits else (),
                state.launches_since(start) if state.launches else (),
                [(begin, end) for kind, begin, end in self._bands if kind != "transfer"]
                if self._bands
                else (),
            ),
        )
        if metrics:
            for value in metrics.values():
                if isinstance(value, LazyMetric):
                    state.lazy_metrics.add(value, state.last_post)
        self._closed.append(
            ClosedStep(self.run, self.run.next_index(), times, watched, state.last_post, metrics, self._bands)
        )
        self._plan_watching(end - start)
        self._wake()

    def _end_of_watched(self, state: ThreadState, end: int) -> bool:
        """Whether the device clock saw every program of the step, and what ran before it."""
        self._device.look(end)
        self._steps_without = 0 if state.dispatches != self._dispatches else self._steps_without + 1
        watched = self._is_device_known(state, end) and (
            self._explicit
            or (self._steps_without < STEPS_WITHOUT and state.programs_compiled == self._programs)
        )
        if watched and self.run.pace is not None:
            self.run.pace.step_was_watched()
        return watched

    def _is_device_known(self, state: ThreadState, end: int) -> bool:
        """Whether nothing that was not posted can have run in this step, but for a moment at its start."""
        since = state.device_known_since
        return self._known_at_start or (
            since is not None and since - self._start <= UNSURE_SHARE * (end - self._start)
        )

    def discard(self) -> None:
        """The open step did not come to an end (an exception, a break): it is no step."""
        self.is_open = False
        self.leave()

    def leave(self) -> None:
        """The loop is over on this thread."""
        # In a finalizer this may be another thread than the loop's; there is then nothing to take back here.
        state = thread_state()
        if state.lazy_metrics:
            state.lazy_metrics.read_settled(self._device.is_settled, all_of_them=True)
        if self in state.clocks:
            del state.clocks[state.clocks.index(self) :]
        if not state.clocks and state.hook is not None:
            state.hook.remove()
            state.hook = None

    def watch(self, output: Any) -> None:
        """Declares `output` (an array or a tree of arrays) to be what this step computes."""
        if self.is_open and self.is_watching:
            self._explicit = True
            self._post(self._state, output)

    def watch_at_end(self, output: Any) -> None:
        """Like `watch`, for an output that is known only when the body is over.

        When the step was dispatched is then not known, so the device counts as busy from the start of the
        body (or the end of the last compilation); an output that is ready by now tells nothing.
        """
        state = self._state
        seen_otherwise = self._explicit or state.dispatches != self._dispatches
        if not self.is_open or not self.is_watching or seen_otherwise or all_ready(output):
            return
        since = max([self._body, *(span[1] for span in state.compiles_since(self._start))])
        self._explicit = True
        self._post(state, output, since)

    def metric(self, values: dict[str, Any]) -> None:
        if self.is_open:
            values = _taken(values)
            self._metrics = {**self._metrics, **values} if self._metrics else values

    def figures(self, values: dict[str, Any]) -> dict[str, Any]:
        """Numbers that are logged between two steps, or after the last one, as they are kept until read."""
        state, found = thread_state(), _taken(values)
        for value in found.values():
            if isinstance(value, LazyMetric):
                state.lazy_metrics.add(value, state.last_post)
        state.lazy_metrics.read_settled(self._device.is_settled, all_of_them=not state.clocks)
        return found

    def add_band(self, kind: str, began: int, ended: int) -> None:
        """Part of the open step was a checkpoint or the like."""
        bands = self._bands = self._bands or []
        # An evaluation that began before this step: only what lies in it is its own.
        bands.append((kind, max(began, self._start), ended))

    def _enter(self, clocks: list[Clock]) -> None:
        if self in clocks:
            # Clocks above it belong to loops that were left without a word (a reference to them is kept).
            del clocks[clocks.index(self) + 1 :]
        else:
            # Loops that ended on another thread (a finalizer) could not leave this list themselves.
            clocks[:] = [clock for clock in clocks if not clock.run.ended]
            clocks.append(self)

    def _install_hook(self, state: ThreadState) -> None:
        if loaded_jax() is not None:
            state.hook = DispatchHookSlot.find()
            if state.hook is not None:
                state.hook.install(self._on_dispatch_of_thread)

    def _on_dispatch_of_thread(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        # One hook serves all clocks of the thread: a program started in an inner loop is device time of both.
        state = thread_state()
        if state.idle:
            self._device.forget()
            return
        watching = False
        for clock in state.clocks:
            if clock.is_open and clock.is_watching:
                watching = True
                if clock.run.pace is not None:
                    clock.run.pace.called(function, args, kwargs)
        if not watching:
            state.device_known_since = None
            self._device.forget()
            state.idle = True
            return
        state.dispatches += 1
        self._post(state, output)

    def _post(self, state: ThreadState, output: Any, since: int | None = None) -> None:
        state.last_dispatch = moment = now_ns()
        state.last_post = self._device.post(output, moment if since is None else since)
        if state.device_known_since is None:
            state.device_known_since = moment

    def _plan_watching(self, wall_ns: int) -> None:
        """Watches some steps only where watching each would cost more than its share of the step.

        What a wait costs is measured by the device clock as it goes: about 10 us, several times that where
        few cores are shared. So steps of some milliseconds are all watched, shorter ones in part.
        """
        usual = self._usual_ns
        if self._planned < FIRST_STEPS:
            # A loop that runs ahead begins with steps that only queue their work.
            self._planned += 1
            self._usual_ns = usual + (wall_ns - usual) / self._planned
        else:
            # The mean, not the least: where the loop runs ahead of the device, most steps only queue their
            # work, and the next one waits for all of it. The bound is for a checkpoint now and then.
            self._usual_ns = usual + 0.1 * (min(wall_ns, 16 * usual) - usual)
        if self._skip > 1:
            self._skip -= 1
            return
        waits, self._waits = self._device.waits - self._waits, self._device.waits
        if self.is_watching:
            self._waits_a_step += 0.1 * (waits - self._waits_a_step)
        # Begun after a program and ended with one: a loop that starts one in some steps only is seen in full.
        between_programs = 0 < self._steps_without < STEPS_WITHOUT
        if self._skip > 0:
            if not (self._skip == 1 and between_programs and self._state.device_known_since is None):
                self._skip -= 1
            return
        if self._in_a_row > 0 or between_programs:
            self._in_a_row = max(self._in_a_row - 1, 0)
            return
        sleeps = self._device.sleeps
        if sleeps:
            self._asleep += 1
        elif self._asleep >= 4 * FIRST_STEPS:
            # One program of many ended unseen: it is learned again, which costs little beside what was saved.
            self._asleep = 0
            self._in_a_row = FIRST_STEPS
            return
        allowed = MEASURING_SHARE * self._usual_ns - CLOCK_COST_NS
        waking = WATCH_COST_FACTOR * self._device.watch_cost_ns * self._waits_a_step
        cost = ASLEEP_COST_NS if sleeps else waking
        if cost <= allowed:
            return
        posted = WATCHED_IN_A_ROW + 1
        left_out = min(posted * (cost / allowed - 1), LONGEST_SKIP) if allowed > 0 else LONGEST_SKIP
        self._spread = (self._spread + SPREAD) % 1
        left_out *= 0.5 + self._spread
        if left_out >= 1:
            self._skip = int(left_out) + 1
            self._in_a_row = WATCHED_IN_A_ROW - 1


def _taken(values: dict[str, Any]) -> dict[str, Any]:
    if "torch" not in sys.modules:
        return dict(values)
    return {name: taken(value) for name, value in values.items()}


#: Without the Python code of `StepTimes.__new__`, which costs as much as the rest of the end of a step.
_new_times = tuple.__new__


def innermost_clock() -> Clock | None:
    """The clock whose step is open on the calling thread, the innermost first."""
    return next((clock for clock in reversed(thread_state().clocks) if clock.is_open), None)
