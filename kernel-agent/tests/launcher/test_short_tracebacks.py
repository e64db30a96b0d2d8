"""A20: the traceback of a very deep recursion appears immediately, with its first and last frames."""

from __future__ import annotations

import inspect
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tpulab.launcher.short_tracebacks import MAX_FRAMES, shorten_tracebacks, shortened


def _down(n: int) -> int:
    return _down(n - 1) + 1 if n else 1 // 0


def _caught(depth: int) -> ZeroDivisionError:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 5_000)
    try:
        _down(depth)
    except ZeroDivisionError as error:
        return error
    finally:
        sys.setrecursionlimit(limit)
    raise AssertionError


def test_frames_in_the_middle_are_left_out_and_counted() -> None:
    traceback = _caught(20_000).__traceback__
    short, left_out = shortened(traceback)
    frames = []
    while short is not None:
        frames.append(short.tb_frame)
        short = short.tb_next
    assert len(frames) == 2 * MAX_FRAMES
    assert left_out == 20_002 - 2 * MAX_FRAMES
    assert frames[0].f_code.co_name == "_caught"
    assert frames[-1].f_locals == {"n": 0}


def test_a_short_one_is_itself() -> None:
    traceback = _caught(10).__traceback__
    assert shortened(traceback) == (traceback, 0)
    assert shortened(None) == (None, 0)


def test_few_frames_are_looked_at_when_an_error_is_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    inspected = []
    real = inspect.getmodule

    def counted(*args: object) -> object:
        inspected.append(args)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(inspect, "getmodule", counted)
    shell = InteractiveShell()
    shorten_tracebacks(shell)
    error = _caught(20_000)
    try:
        raise ValueError("what went wrong") from error
    except ValueError as failure:
        lines = shell.InteractiveTB.structured_traceback(ValueError, failure, failure.__traceback__)
    text = "".join(lines)
    assert len(inspected) < 20 * MAX_FRAMES
    assert "19,802 frames in the middle of this traceback are left out" in text
    assert "what went wrong" in text
    assert "ZeroDivisionError" in text
