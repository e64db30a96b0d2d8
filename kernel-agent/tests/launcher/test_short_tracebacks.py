"""A20: the traceback of a very deep recursion appears immediately, with its first and last frames.

C09, C11: an error that passes through this package or jax shows neither's frames, and takes no time for them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import tpulab
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


def test_a_short_traceback_is_unchanged() -> None:
    traceback = _caught(10).__traceback__
    assert shortened(traceback) == (traceback, 0)
    assert shortened(None) == (None, 0)


def test_few_frames_are_inspected_when_an_error_is_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    inspected = []
    real = inspect.getmodule

    def counted(*args: object) -> object:
        inspected.append(args)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(inspect, "getmodule", counted)
    error = _caught(20_000)
    try:
        raise ValueError("what went wrong") from error
    except ValueError as failure:
        text = _formatted(failure)
    assert len(inspected) < 20 * MAX_FRAMES
    assert "19,802 frames in the middle of this traceback are left out" in text
    assert "what went wrong" in text
    assert "ZeroDivisionError" in text


def test_frames_of_this_package_and_hidden_ones_are_neither_shown_nor_inspected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inspected = []
    real = inspect.getmodule

    def recorded(what: object, *args: object) -> object:
        inspected.append(str(getattr(getattr(what, "f_code", None), "co_filename", "")))
        return real(what, *args)  # type: ignore[arg-type]

    def of_jax() -> None:
        __tracebackhide__ = True
        _down(3)

    def items() -> Iterator[int]:
        yield 1
        of_jax()

    monkeypatch.setattr(inspect, "getmodule", recorded)
    try:
        for _ in tpulab.steps(items()):
            pass
    except ZeroDivisionError as error:
        text = _formatted(error)
    ours = str(Path(tpulab.__file__).parent)
    assert "in _down(n)" in text
    assert ".<locals>.items()" in text
    assert ".of_jax()" not in text
    assert "skipping hidden" not in text
    assert ours not in text
    assert not [name for name in inspected if name.startswith(ours)]


def test_an_error_of_this_package_shows_the_line_that_raises_it() -> None:
    try:
        tpulab.run("odd", total="many")  # type: ignore[arg-type]
    except ValueError as error:
        text = _formatted(error)
    assert 'tpulab.run("odd", total="many")' in text
    assert text.count(str(Path(tpulab.__file__).parent)) == 1


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("'widget' is not a recognised GUI loop or backend name"),
        ModuleNotFoundError("No module named 'ipympl'"),
    ],
)
def test_interactive_figures_without_their_package_name_it_once(error: Exception) -> None:
    _formatted(error)
    assert _formatted(error).count("`%pip install ipympl`") == 1
    assert "ipympl" not in _formatted(RuntimeError("other"))


def _formatted(error: BaseException) -> str:
    shell = InteractiveShell()
    shorten_tracebacks(shell)
    lines = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(lines))
