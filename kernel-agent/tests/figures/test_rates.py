"""Rates and time left on a known clock: pauses, evaluations, compiling (cases T6, T9; F6, F12)."""

from __future__ import annotations

from typing import Any

import pytest

from tpulab.figures import throughput as room
from tpulab.figures.spans import StepSplit, StepTimes, split, without_excluded
from tpulab.figures.throughput import Effort, Throughput, goodput
from tpulab.figures.totals import Figures, RunTotals

MS = 1_000_000
S = 1_000 * MS


class Training:
    """A loop on a faked clock, with a sample each second as the agent takes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, total: int) -> None:
        self.now, self.total, self.done = 0, total, 0
        self.totals = RunTotals()
        monkeypatch.setattr(room, "now_ns", lambda: self.now)
        self.throughput = Throughput(Effort(tokens=1000, updates=100), lambda *_: None)
        self.reported: list[tuple[int, Any]] = []
        self._next = 0

    def step(self, ms: float, compile_ms: float = 0) -> None:
        self.now += int((ms + compile_ms) * MS)
        self.done += 1
        self.totals.add(StepSplit(0, int(ms * MS), int(compile_ms * MS), 0, 0), False, first=self.done == 1)
        if self.now >= self._next:
            self._next = self.now + S
            self.reported.append((self.now, self.message()))

    def band(self, kind: Any, seconds: float) -> None:
        self.now += int(seconds * S)
        self.totals.add_band(kind, int(seconds * S))
        self.throughput.band(kind, self.done, int(seconds * S))

    def message(self) -> Any:
        return self.throughput.message(Figures("r", 0, self.total, self.done, self.totals))


def errors(training: Training, since: int = 0) -> list[float]:
    """The reported time left, compared with the time that was then needed: reported / true."""
    return [
        message["etaSeconds"] / ((training.now - moment) / S)
        for moment, message in training.reported
        if message["etaSeconds"] is not None and moment >= since and training.now - moment > S
    ]


def test_a_pause_counts_in_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, 700)
    for _ in range(100):
        training.step(100)
    training.band("pause", 600)
    after = training.now
    for _ in range(600):
        training.step(100)
    assert all(0.95 < error < 1.05 for error in errors(training, after))
    for moment, message in training.reported:
        if moment > 2 * S:
            assert 9.5 < message["stepsPerSecond"] < 10.5
            assert 9_500 < message["tokensPerSecond"] < 10_500
            assert message["updatesPerSecond"] == pytest.approx(100 * message["stepsPerSecond"])


def test_remaining_evaluations_are_counted_from_the_second_one_on(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch, 400)
    second = 0
    for number in range(400):
        training.step(100)
        if (number + 1) % 100 == 0:
            training.band("evaluate", 15)
            second = second or (training.now if number > 150 else 0)
    assert all(0.8 < error < 1.25 for error in errors(training, second))


def test_nothing_is_reported_before_ten_steady_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """N6: the rate of the first steps contains their compilation."""
    training = Training(monkeypatch, 200)
    training.step(50, compile_ms=9_000)
    training.step(50, compile_ms=3_000)
    for _ in range(198):
        training.step(50)
    spoken = [moment for moment, message in training.reported if message["etaSeconds"] is not None]
    assert spoken[0] >= 12 * S + 10 * 50 * MS
    assert all(0.9 < error < 1.1 for error in errors(training))


def test_a_loop_that_compiles_in_each_step_takes_that_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C10."""
    training = Training(monkeypatch, 300)
    for _ in range(300):
        training.step(2, compile_ms=60)
    reported = [message["etaSeconds"] for moment, message in training.reported if moment > 5 * S]
    assert None not in reported
    assert all(0.8 < error < 1.2 for error in errors(training, 5 * S))


def test_a_band_inside_a_step_is_part_of_no_span() -> None:
    times = StepTimes(0, 10, 1_000, [(100, 200)], 600, (), (), [(150, 550)])
    found = split(times, [(300, 700)])
    assert sum(found) == 1_000 - 400
    # Compiling up to the band; the device from its end; idle from then on.
    assert found == StepSplit(input=10, host=90 + 0, compile=50, device=150, gap=300)
    collapsed, busy = without_excluded(times, [(300, 700)])
    assert (collapsed.end, busy) == (600, [(150, 300)])


def test_an_evaluation_is_lost_time_and_not_device_time() -> None:
    """Case T9: whether the step of the evaluation was watched or not."""
    for known in (True, False):
        totals = RunTotals()
        for number in range(60):
            excluded = [(2 * MS, 1_502 * MS)] if number == 59 else []
            end = (1_505 if excluded else 5) * MS
            times = StepTimes(0, 0, end, (), 1 * MS, (), (), excluded)
            is_known = known or number != 59
            spans = split(times, [(1 * MS, 2 * MS)] if is_known else None)
            totals.add(spans, is_known, in_bands=end - sum(spans))
        totals.add_band("evaluate", 1_500 * MS)
        assert totals.wall == 60 * 5 * MS
        assert totals.shown().device == pytest.approx(60 * MS, rel=0.02)
        found = goodput(totals, totals.wall + totals.in_steps, 0)
        assert found["badputMs"]["CUSTOM_BADPUT_EVENTS"] == 1_500
        assert found["productiveMs"] == pytest.approx(60, rel=0.02)


def test_time_in_python_with_an_idle_device_is_not_productive() -> None:
    totals = RunTotals()
    for _ in range(10):
        totals.add(StepSplit(0, 75, 0, 25, 0), True)
    assert goodput(totals, 1_000, 0)["productiveMs"] == pytest.approx(250 / 1e6)
