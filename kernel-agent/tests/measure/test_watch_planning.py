"""Which steps are watched: a matter of what a wait costs and of how long a step takes in the mean."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from tpulab.measure.step_clock import FIRST_STEPS, StepClock

MS = 1_000_000
WAIT_COST_NS = 30_000


def share_watched(walls_ms: list[float], *, after: int = FIRST_STEPS, sleeps: bool = False) -> float:
    """The share of steps of these lengths that is watched, the first `after` not counted."""
    device = SimpleNamespace(waits=0, watch_cost_ns=WAIT_COST_NS, sleeps=sleeps)
    clock = StepClock(cast(Any, None), cast(Any, device), deque(), lambda: None)
    watched = []
    for wall_ms in walls_ms:
        watched.append(clock._skip == 0)
        device.waits += watched[-1]
        clock._plan_watching(int(wall_ms * MS))
    return sum(watched[after:]) / len(watched[after:])


def test_long_steps_are_all_watched() -> None:
    assert share_watched([20.0] * 100) == 1


def test_short_steps_are_watched_in_part() -> None:
    assert 0 < share_watched([0.7] * 500) < 0.1


def test_shorter_steps_are_all_watched_where_nobody_is_woken() -> None:
    assert share_watched([2.6] * 500, sleeps=True) == 1
    assert share_watched([2.6] * 500) < 0.6


def test_the_first_steps_are_all_watched_however_short_they_are() -> None:
    assert share_watched([0.7] * FIRST_STEPS, after=0) == 1


def test_steps_that_queue_their_work_are_judged_by_the_mean() -> None:
    # The loop runs ahead: three calls return at once, the fourth waits for the device.
    assert share_watched([0.3, 0.3, 0.3, 40.0] * 50, after=100) > 0.9


def test_a_checkpoint_now_and_then_does_not_make_short_steps_look_long() -> None:
    assert share_watched(([0.7] * 99 + [5_000.0]) * 5, after=100) < 0.15
