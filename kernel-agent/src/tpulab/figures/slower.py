"""Reports when the steps of a run take longer over a minute than before, with an unchanged program."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tpulab.figures.totals import RunTotals

#: Time in steps, so that pauses and evaluations between them do not count.
WINDOW_NS = 60_000_000_000
MARK_NS = 5_000_000_000
MIN_STEPS = 10
#: A drop of the rate by this share is reported.
LOST_SHARE = 0.15
#: A step whose operations differ by more than this share is another program.
SAME_WORK = 0.02
MAX_REPORTED = 8


class Slower(NamedTuple):
    """Milliseconds per step: before, in the last minute, and the increase of each span."""

    before_ms: float
    now_ms: float
    longer_ms: dict[str, float]
    #: whether the device time of both is known
    device_known: bool


class SlowerWatch:
    """For one run. Other minutes are compared with the best minute of this program."""

    def __init__(self) -> None:
        self._marks: deque[RunTotals] = deque()
        self._best: RunTotals | None = None
        self._flops = 0.0
        self._reported = 0

    def check(self, totals: RunTotals, flops: float = 0.0) -> Slower | None:
        """`flops`: recent operations per step; 0 where unknown."""
        marks = self._marks
        if marks and totals.wall - marks[-1].wall < MARK_NS:
            return None
        if marks and (
            totals.compiled > marks[-1].compiled or abs(flops - self._flops) > SAME_WORK * self._flops
        ):
            marks.clear()
            self._best = None
        self._flops = flops
        marks.append(totals.copy())
        while len(marks) > 2 and totals.wall - marks[1].wall >= WINDOW_NS:
            marks.popleft()
        window, best = totals.minus(marks[0]), self._best
        if window.wall < WINDOW_NS or window.steps < MIN_STEPS:
            return None
        if best is None or _step_ns(window) < _step_ns(best):
            self._best = window
            return None
        if _step_ns(best) > (1 - LOST_SHARE) * _step_ns(window) or self._reported >= MAX_REPORTED:
            return None
        self._reported += 1
        self._best = window
        return _slower(best, window)


def _step_ns(totals: RunTotals) -> float:
    return totals.wall / totals.steps


def _slower(before: RunTotals, now: RunTotals) -> Slower:
    was, spans = (
        {name: part / totals.steps / 1e6 for name, part in totals.shown()._asdict().items()}
        for totals in (before, now)
    )
    return Slower(
        _step_ns(before) / 1e6,
        _step_ns(now) / 1e6,
        {name: part - was[name] for name, part in spans.items()},
        bool(before.known and now.known),
    )
