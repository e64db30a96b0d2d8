"""Which loops get the advice that they wait in each step, by the steps in which a line reads and waits."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tpulab.measure.device_clock import DeviceClock
from tpulab.measure.sync_watch import STEPS_IN_A_ROW, SyncWatch
from tpulab.telemetry.adviser import Adviser
from tpulab.telemetry.cells import CellRegister

Read = Callable[[int], bool | None]


def never(_step: int) -> None:
    """A line that does not read."""


def message(steps: int, first: Read, second: Read = never) -> list[Any]:
    """The advice for a loop of two lines. Each returns whether it waits in a step; None: no read."""
    events: deque[Any] = deque()
    watch = SyncWatch(Adviser(events, lambda: None), CellRegister(), DeviceClock())
    run: Any = SimpleNamespace(id="r", name="loop", closed=0)
    for run.closed in range(steps):
        if (waits := first(run.closed)) is not None:
            watch.noticed(run, sys._getframe(), waited=waits)
        if (waits := second(run.closed)) is not None:
            watch.noticed(run, sys._getframe(), waited=waits)
    return list(events)


def test_a_line_that_waits_in_each_step_is_reported_after_twenty() -> None:
    assert message(STEPS_IN_A_ROW - 1, lambda _: True) == []
    [advice] = message(5 * STEPS_IN_A_ROW, lambda _: True)
    assert advice["kind"] == "sync-each-step"


def test_steps_whose_value_was_ready_before_it_was_read_do_not_restart_the_count() -> None:
    waits_in_a_third = lambda step: step % 3 == 0  # noqa: E731
    assert message(3 * STEPS_IN_A_ROW - 3, waits_in_a_third) == []
    assert len(message(3 * STEPS_IN_A_ROW, waits_in_a_third)) == 1


def test_a_step_without_a_read_restarts_the_count() -> None:
    assert message(500, lambda step: None if step % 10 == 9 else True) == []


def test_reading_a_ready_value_is_never_reported() -> None:
    assert message(500, lambda _: False) == []


@pytest.mark.parametrize("hides", [lambda _: False, lambda step: step == 0])
def test_a_line_that_reads_without_waiting_does_not_hide_one_that_waits(hides: Read) -> None:
    [advice] = message(2 * STEPS_IN_A_ROW, hides, lambda _: True)
    assert advice["location"]["line"] > 0
    assert advice["location"]["line"] != message(50, lambda _: True)[0]["location"]["line"]
