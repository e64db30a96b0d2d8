"""The headline figures of third-party loops, compared with independent measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from foreign_loops import LOOPS, measure


@pytest.mark.parametrize("name", LOOPS)
def test_reported_figures_match_independent_measurements(name: str) -> None:
    is_true(measure(name), unseen=10 if "no annotation" in name else 0)


def is_true(found: dict[str, dict[str, Any]], lost_ms: float = 1, unseen: int = 0) -> None:
    """`lost_ms`: the mean loss of a step between both samples to other threads."""
    reported, true = found["reported"], found["true"]
    # A loop without annotation is detected after some iterations.
    assert true["steps"] - unseen <= reported["steps"] <= true["steps"]
    assert unseen or reported["steps"] == true["steps"]
    # Both clocks measure the same loop: the gap between their samples is microseconds, or a lost core.
    assert reported["ms"] == pytest.approx(true["ms"], rel=0.1, abs=lost_ms)
    assert reported["spans"] == pytest.approx(reported["walls"], rel=1e-3)
    if true["input"] is not None:
        # A wait in which the device works on the previous step is device time.
        overlapped = reported["input"] + reported["device"]
        assert reported["input"] <= 1.1 * true["input"] + 1
        assert overlapped >= 0.9 * true["input"] - 1
    if true["evaluations"] is not None:
        assert reported["evaluations"] == pytest.approx(true["evaluations"], rel=0.1)
    if true["goodput"] is not None:
        # The independent time runs from call to result: it includes dispatch, and the wait for a core.
        assert 0.4 * true["goodput"] <= reported["goodput"] <= 1.25 * true["goodput"]
    if true["left"] is not None:
        # The machine may be faster or slower in the estimated half; a compilation in the rate is not.
        assert reported["left"] <= 3 * true["left"] + 1
        assert true["left"] <= 3 * reported["left"] + 1
    if true["flops"] is not None:
        assert reported["exact"] is True
        assert reported["flops"] == pytest.approx(true["flops"], rel=1e-6)
    if true["compilations"] is not None:
        assert reported["compilations"] == true["compilations"]
    if true["loss"] is not None:
        assert reported["loss"] == pytest.approx(true["loss"], rel=1e-6)
