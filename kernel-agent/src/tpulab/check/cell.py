"""`tpulab.preflight` in a cell: one function, checked for chips that are not attached."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tpulab.check import report
from tpulab.check.capture import Place, Placer, Recorder, place_of
from tpulab.check.checking import Request, Work, compile_all, report_of
from tpulab.check.chips import PreflightError, machines_named, read_prices
from tpulab.check.findings import Budget
from tpulab.check.layouts import Answers
from tpulab.telemetry.cells import notebook_shell


class Preflight:
    """The findings; `report` is the output of `tpulab check --json`."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.report = found

    @property
    def fits(self) -> bool:
        """On every requested machine."""
        results = [each for program in self.report["programs"] for each in program["results"].values()]
        return all(each["fits"] in ("fits", "tight") for each in results)

    def __repr__(self) -> str:
        return report.text(self.report, None)


def preflight(
    step: Any,
    *args: Any,
    chips: str = "v5e-8, v6e-8",
    largest_batch: bool = False,
    propose: bool = False,
    epoch_steps: int | None = None,
    save_compiled: str | None = None,
    prices: str | None = None,
    **kwargs: Any,
) -> Preflight:
    """Whether `step(*args, **kwargs)` fits TPUs, what it costs there, and what to change. Runs nothing.

    Args:
        step: a function, jitted or not. args, kwargs: arrays, or `jax.ShapeDtypeStruct` for arrays that this
            computer need not hold, with the shardings of the real call.
        chips: machine types, as in `v5e-8, v6e-8, v5p-8, 7x-8`.
        largest_batch: compile larger batches until one does not fit.
        propose: compile the step in other layouts, and show those that take the least time, with the code;
            the arguments are those of the whole step.
        epoch_steps: for the price of an epoch. save_compiled: file for the compiled program, which
            `tpulab.load_compiled` takes on such a machine. prices: a price list instead of the one of TPULab.

    Raises:
        PreflightError: one sentence that states why there is no result: no compiler here, an unknown chip.
    """
    began, machines = time.monotonic(), machines_named(chips)
    listed = read_prices(None if prices is None else Path(prices))
    if not callable(step):
        raise PreflightError(
            "step_unusable", f"The first argument must be a function, not {type(step).__name__}."
        )
    placer = _placer()
    recorder = Recorder(placer)
    recorder.lower(step, args, kwargs)
    if not recorder.programs:
        raise PreflightError("step_unusable", "The function was not compiled: it computes nothing with jax.")
    with tempfile.TemporaryDirectory(prefix="tpulab-check-") as place:
        folder = Path(place)
        programs = [asdict(program) for program in recorder.write(folder)]
        run = {
            "seconds": time.monotonic() - began,
            "cells": 0,
            "stopped": False,
            "failed": None,
            "eager": 0,
            "dropped": 0,
            "jax": sys.modules["jax"].__version__,
            "torch": False,
            "programs": programs,
        }

        answers = Answers(recorder, folder)
        request = Request(
            Path(programs[0]["name"]),
            machines,
            largest_batch=largest_batch,
            epoch_steps=epoch_steps,
            propose=propose,
            save_compiled=None if save_compiled is None else Path(save_compiled),
        )
        work = [Work(machine, folder, run, answers.answer) for machine in machines]
        results = compile_all(work, request, _progress if propose else lambda _: None)
    runs = {machine.devices: run for machine in machines}
    found = report_of(request, runs, results, listed, Budget(), placer)
    found["seconds"] = round(time.monotonic() - began, 1)
    return Preflight(found)


def _progress(words: str) -> None:
    sys.stdout.write(f"{words}\n")


def _placer() -> Placer:
    """Names the cells of the running kernel by their numbers."""
    shell = notebook_shell()
    history = getattr(getattr(shell, "history_manager", None), "input_hist_raw", ())
    cells = {
        shell.compile.get_code_name(source, source, number): number
        for number, source in enumerate(history)
        if source
    }

    def placer(file: str, line: int) -> Place:
        return Place("", line, cells[file]) if file in cells else place_of(file, line)

    return placer
