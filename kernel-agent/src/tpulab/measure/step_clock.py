"""Measures the steps of one run on one thread. Costs a few microseconds a step; never waits for the device.

The clock only notes moments. The recorder computes the spans later, on the agent's thread, when the device
clock knows the end of the device's work.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpulab.figures.spans import StepTimes
from tpulab.measure.thread_state import Clock, ThreadState, thread_state
from tpulab.measure.watch_plan import WatchPlan
from tpulab.runtimes.device_value import all_ready
from tpulab.runtimes.jax_internals import DispatchHookSlot, loaded_jax, python_calls
from tpulab.runtimes.lazy_metrics import LazyMetric, stored_value
from tpulab.telemetry.clocks import now_ns

if TYPE_CHECKING:
    from tpulab.measure.device_clock import DeviceClock
    from tpulab.measure.runs import Run
    from tpulab.telemetry.messages import RunState

#: The share of a step, at its start, in which the device's state may be unknown.
UNSURE_SHARE = 0.02
#: After so many steps without a program on its thread, a loop may well have its work started elsewhere.
STEPS_WITHOUT = 32


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
        self._plan = WatchPlan(device)
        self.is_open = False
        #: ends the measured run
        self.end_run: Callable[[RunState], None] | None = None

    @property
    def usual_ns(self) -> float:
        """The mean time of recent steps; 0 before the first one has ended."""
        return self._plan.usual_ns

    def begin(self) -> None:
        """A step begins: the loop requests its next item."""
        state = self._state = thread_state()
        if state.lazy_metrics:
            state.lazy_metrics.read_settled(self._device.is_settled)
        clocks = state.clocks
        if not clocks or clocks[-1] is not self:
            self._enter(clocks)
        if self._plan.posts:
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
            self._plan.begins_to_watch()
        self.is_watching = True
        state.idle = False
        if state.hook is not None:
            state.hook.install(self._on_dispatch_of_thread)
        self._known_at_start = state.device_known_since is not None
        self._dispatches = state.dispatches
        self._programs = state.programs_compiled
        self._explicit = False
        if self.run.throughput is not None:
            self.run.throughput.step_begins()

    def body(self) -> None:
        """The item is available: the body of the loop begins."""
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
        self._plan.step_ended(
            end - start,
            is_between=0 < self._steps_without < STEPS_WITHOUT,
            is_device_known=state.device_known_since is not None,
        )
        self._wake()

    def _end_of_watched(self, state: ThreadState, end: int) -> bool:
        """Whether the device clock saw every program of the step, and the programs that ran before it."""
        self._device.poll(end)
        self._steps_without = 0 if state.dispatches != self._dispatches else self._steps_without + 1
        watched = self._is_device_known(state, end) and (
            self._explicit
            or (self._steps_without < STEPS_WITHOUT and state.programs_compiled == self._programs)
        )
        if watched and self.run.throughput is not None:
            self.run.throughput.step_was_watched()
        return watched

    def _is_device_known(self, state: ThreadState, end: int) -> bool:
        """Whether no unposted program can have run in this step, except for a moment at its start."""
        since = state.device_known_since
        return self._known_at_start or (
            since is not None and since - self._start <= UNSURE_SHARE * (end - self._start)
        )

    def discard(self) -> None:
        """The open step did not finish (an exception, a break): it is no step."""
        self.is_open = False
        self.leave()

    def leave(self) -> None:
        """The loop is over on this thread."""
        # In a finalizer this may be another thread than the loop's; there is then nothing to undo here.
        state = thread_state()
        if state.lazy_metrics:
            state.lazy_metrics.read_settled(self._device.is_settled, everything=True)
        if self in state.clocks:
            del state.clocks[state.clocks.index(self) :]
        if not state.clocks and state.hook is not None:
            state.hook.remove()
            state.hook = None

    def watch(self, output: Any) -> None:
        """Declares `output` (an array or a tree of arrays) as the result of this step."""
        if self.is_open and self.is_watching:
            self._explicit = True
            self._post(self._state, output)

    def watch_at_end(self, output: Any) -> None:
        """Like `watch`, for an output that is known only after the body.

        The dispatch time of the step is then not known, so the device counts as busy from the start of the
        body (or the end of the last compilation). An output that is already ready is ignored.
        """
        state = self._state
        recorded_elsewhere = self._explicit or state.dispatches != self._dispatches
        if not self.is_open or not self.is_watching or recorded_elsewhere or all_ready(output):
            return
        since = max([self._body, *(span[1] for span in state.compiles_since(self._start))])
        self._explicit = True
        self._post(state, output, since)

    def metric(self, values: dict[str, Any]) -> None:
        if self.is_open:
            values = _stored_values(values)
            self._metrics = {**self._metrics, **values} if self._metrics else values

    def figures(self, values: dict[str, Any]) -> dict[str, Any]:
        """Numbers logged between two steps, or after the last one, in the form in which they are stored."""
        state, found = thread_state(), _stored_values(values)
        for value in found.values():
            if isinstance(value, LazyMetric):
                state.lazy_metrics.add(value, state.last_post)
        state.lazy_metrics.read_settled(self._device.is_settled, everything=not state.clocks)
        return found

    def add_band(self, kind: str, began: int, ended: int) -> None:
        """Part of the open step was a checkpoint or the like."""
        bands = self._bands = self._bands or []
        # An evaluation that began before this step: only the part inside it counts.
        bands.append((kind, max(began, self._start), ended))

    def _enter(self, clocks: list[Clock]) -> None:
        if self in clocks:
            # Clocks above it belong to loops that ended without a signal (a reference to them is kept).
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
                if clock.run.throughput is not None:
                    clock.run.throughput.called(function, args, kwargs)
        if not watching:
            state.device_known_since = None
            self._device.forget()
            state.idle = True
            return
        state.dispatches += 1
        before, took = state.last_dispatch, python_calls.time_in_call(function, output)
        self._post(state, output, max(now_ns() - took, before) if took else None)
        if took == 0:
            self._device.add_unknown(before, state.last_dispatch)

    def _post(self, state: ThreadState, output: Any, since: int | None = None) -> None:
        state.last_dispatch = moment = now_ns()
        state.last_post = self._device.post(output, moment if since is None else since)
        if state.device_known_since is None:
            state.device_known_since = moment


def _stored_values(values: dict[str, Any]) -> dict[str, Any]:
    if "torch" not in sys.modules:
        return dict(values)
    return {name: stored_value(value) for name, value in values.items()}


#: Avoids the Python code of `StepTimes.__new__`, which costs as much as the rest of the end of a step.
_new_times = tuple.__new__


def innermost_clock() -> Clock | None:
    """The clock whose step is open on the calling thread, the innermost first."""
    return next((clock for clock in reversed(thread_state().clocks) if clock.is_open), None)
