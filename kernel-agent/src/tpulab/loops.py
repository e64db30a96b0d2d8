"""`tpulab.steps` and `tpulab.step`: measure a plain loop. Neither ever changes what the loop does.

A step of `steps` begins when the loop asks for its next item and ends when it asks for the one after. A step
of `with step()` is the block. `tpulab.figures.spans` says how its time is split.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from tpulab.agent.process_agent import current_agent
from tpulab.measure.loop_exit import LoopGuard, length_of
from tpulab.measure.step_clock import innermost_clock
from tpulab.measure.tracked_run import TrackedRun, step_runs
from tpulab.telemetry.plain import whole_number

T = TypeVar("T")


class Steps(Iterator[T], Generic[T]):
    """Iterates over `iterable` and measures each turn of the loop as one step of a run."""

    def __init__(
        self, iterable: Iterable[T], name: str | None, total: int | None, watch: Callable[[], Any] | None
    ) -> None:
        self._iterable = iterable
        self._name = name
        self._total = total
        self._watch = watch
        self._items: Iterator[T] | None = None
        self._tracked: TrackedRun | None = None
        self._guard: LoopGuard | None = None
        self._exhausted = False

    def __iter__(self) -> Steps[T]:
        if self._exhausted:
            # A second loop over the same object is a new run, as it is a new pass over the iterable.
            self._exhausted, self._items, self._tracked = False, None, None
        return self

    def __len__(self) -> int:
        length = length_of(self._iterable)
        if length is None:
            # A TypeError, which `list` and `tqdm` take for "not known".
            raise TypeError("the length of the iterable of tpulab.steps is unknown")
        return length

    def __bool__(self) -> bool:
        return True

    def __next__(self) -> T:
        tracked = self._tracked
        if tracked is None:
            tracked = self._begin_run(sys._getframe(1))
        elif tracked.clock.is_open:
            self._end_step(tracked)
        tracked.begin_step()
        try:
            if self._items is None:
                self._items = iter(self._iterable)
            item = next(self._items)
        except StopIteration:
            self._exhausted = True
            tracked.end("finished")
            raise
        except BaseException:
            tracked.end("failed")
            raise
        tracked.clock.body()
        return item

    def watch(self, output: Any) -> None:
        """Names an output (array or tree of arrays) of the running step, to measure its device time."""
        if self._tracked is not None:
            self._tracked.clock.watch(output)

    def metric(self, **values: Any) -> None:
        """Records numbers of the running step, such as `loss=loss`. Arrays are read when they are ready."""
        if self._tracked is not None:
            self._tracked.metric(values)

    def close(self) -> None:
        """Ends the run before the iterable is exhausted. Leaving a `for` loop does this automatically."""
        if self._tracked is not None:
            self._tracked.end("finished")

    def _begin_run(self, frame: FrameType) -> TrackedRun:
        total = self._total if self._total is not None else length_of(self._iterable)
        tracked = TrackedRun(current_agent().tracker, self._name, total, frame)
        self._guard = LoopGuard(tracked, frame.f_code)
        tracked.on_end = disarm(weakref.ref(self))
        self._tracked = tracked
        return tracked

    def _end_step(self, tracked: TrackedRun) -> None:
        if self._watch is not None:
            try:
                tracked.clock.watch_at_end(self._watch())
            except Exception as error:
                # The user's loop goes on without it; once is enough to say so.
                self._watch = None
                tracked.tracker.warn("the `watch` of tpulab.steps failed and is not called again: %r", error)
        tracked.clock.end()


class Step:
    """One measured block. See `step`."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self._tracked: TrackedRun | None = None

    def __enter__(self) -> Step:
        frame = sys._getframe(1)
        tracked = step_runs.of_block(current_agent().tracker, self._name, frame)
        if tracked is not None:
            self._tracked = tracked
            tracked.begin_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tracked, self._tracked = self._tracked, None
        if tracked is None:
            return
        if kind is None:
            tracked.clock.end()
        else:
            tracked.end("failed")

    def watch(self, output: Any) -> None:
        """Names an output of this step, to measure its device time."""
        if self._tracked is not None:
            self._tracked.clock.watch(output)

    def metric(self, **values: Any) -> None:
        """Records numbers of this step. Arrays are read later, when they are ready."""
        if self._tracked is not None:
            self._tracked.metric(values)


def steps(
    iterable: Iterable[T],
    *,
    name: str | None = None,
    total: int | None = None,
    watch: Callable[[], Any] | None = None,
) -> Steps[T]:
    """Measures each turn of a loop: `for batch in tpulab.steps(loader): …`.

    Args:
        iterable: iterated by the loop. Waiting for its next item is input time.
        name: name of the run. Default: the function, cell or script of the loop.
        total: number of steps, if the iterable has no length.
        watch: called at the end of each step; returns an output of the step. Needed only if the loop's own
            thread calls no jitted function; otherwise outputs are found automatically.
    """
    return Steps(iterable, name, whole_number("total", total), watch)


def step(name: str | None = None) -> Step:
    """Measures a block as one step: `with tpulab.step() as s: …`. Blocks at one place form one run.

    The run ends with the cell, or with the process in a script; an exception in a block ends it as failed.
    Time between two blocks belongs to no step.
    """
    return Step(name)


def watch(output: Any) -> None:
    """Names an output of the innermost step that is running on this thread. Does nothing outside a step."""
    clock = innermost_clock()
    if clock is not None:
        clock.watch(output)


def metric(**values: Any) -> None:
    """Records numbers of the innermost step that is running on this thread. Does nothing outside a step."""
    clock = innermost_clock()
    if clock is not None:
        clock.metric(values)


def disarm(steps: weakref.ref[Steps[Any]]) -> Callable[[], None]:
    """Removes the guard of a loop whose run has ended, so that no finalizer runs late."""

    def drop() -> None:
        loop = steps()
        if loop is not None:
            loop._guard = None

    return drop
