"""`tpulab.steps` and `tpulab.step`: measure a plain loop. Neither ever changes what the loop does.

A step of `steps` begins when the loop requests its next item and ends with the request after it. A step
of `with step()` is the block. `tpulab.figures.spans` describes how its time is split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any, Generic, TypeVar

from tpulab.agent.process_agent import current_agent
from tpulab.figures.alerts import MAX_RULES, parse_rule
from tpulab.measure.loop_exit import LoopGuard, MeasuredBlock, MeasuredLoop
from tpulab.measure.step_clock import innermost_clock
from tpulab.measure.tracked_run import TrackedRun, step_runs
from tpulab.telemetry.plain import named, whole_number

T = TypeVar("T")


class Steps(MeasuredLoop[TrackedRun], Iterator[T], Generic[T]):
    """Iterates over `iterable` and measures each turn of the loop as one step of a run."""

    def __init__(
        self, iterable: Iterable[T], name: str | None, total: int | None, watch: Callable[[], Any] | None
    ) -> None:
        super().__init__(iterable, total, watch)
        self._name = name

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
            item: T = next(self._items)
        except StopIteration:
            self._exhausted = True
            tracked.end("finished")
            raise
        except BaseException:
            tracked.end("failed")
            raise
        tracked.clock.body()
        return item

    def metric(self, values: Mapping[str, Any] | None = None, /, **metrics: Any) -> None:
        """Records numbers of the running step, such as `loss=loss`. Arrays are read when they are ready."""
        metrics = named(values, metrics)
        if self._tracked is not None:
            self._tracked.metric(metrics)

    def close(self) -> None:
        """Ends the run before the iterable is exhausted. Leaving a `for` loop does this automatically."""
        if self._tracked is not None:
            self._tracked.end("finished")

    def _begin_run(self, frame: FrameType) -> TrackedRun:
        tracked = TrackedRun(current_agent().tracker, self._name, self._length(), frame)
        self._guard = LoopGuard(tracked.end, frame.f_code)
        tracked.on_end = self._disarms()
        self._tracked = tracked
        return tracked


class Step(MeasuredBlock[TrackedRun]):
    """One measured block. See `step`."""

    def __init__(self, name: str | None) -> None:
        self._name = name

    def __enter__(self) -> Step:
        frame = sys._getframe(1)
        tracked = step_runs.of_block(current_agent().tracker, self._name, frame)
        if tracked is not None:
            self._tracked = tracked
            tracked.begin_step()
        return self

    def metric(self, values: Mapping[str, Any] | None = None, /, **metrics: Any) -> None:
        """Records numbers of this step. Arrays are read later, when they are ready."""
        metrics = named(values, metrics)
        if self._tracked is not None:
            self._tracked.metric(metrics)


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


def metric(values: Mapping[str, Any] | None = None, /, **metrics: Any) -> None:
    """Records numbers of the innermost step that is running on this thread, such as `loss=loss`, or
    `{"train/loss": loss}`. Does nothing outside a step.

    Raises:
        TypeError: `values` is not a mapping.
    """
    metrics = named(values, metrics)
    clock = innermost_clock()
    if clock is not None:
        clock.metric(metrics)


def alert(when: str | None) -> None:
    """Reports a metric that breaks a rule, once in each run: `tpulab.alert(when="loss > 5 for 100 steps")`.

    The report is shown beside the run, and runs the server's notify command (`docs/control.md`).

    Args:
        when: `NAME > NUMBER`, with `>`, `>=`, `<` or `<=`, and `for COUNT steps` if it has to hold for so
            long. None removes all rules.

    Raises:
        ValueError: `when` is no such rule, or there are 64 rules.
    """
    rules = current_agent().recorder.rules
    if when is None:
        rules.clear()
        return
    rule = parse_rule(when)
    if len(rules) >= MAX_RULES and rule.text not in rules:
        raise ValueError(f"there are {MAX_RULES} rules; tpulab.alert(None) removes all")
    rules[rule.text] = rule
