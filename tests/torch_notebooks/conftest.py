"""Runs the notebooks in PyTorch through a bridge, each once, with its own settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from ..lesson import PROBES
from ..notebook_run import Executed, require_environment, run_notebook

#: The first step of a network is compiled in the cell, on a possibly busy machine.
CELL_DEADLINE_S = 600

#: Like the button, while the first step runs. Only the trainings of the lessons record figures.
STOP_IN_THE_FIRST_STEP = """
from tpulab.training.run import TrainingRun

record = TrainingRun.log

def record_and_stop(run, **metrics):
    record(run, **metrics)
    run.stop()

TrainingRun.log = record_and_stop
"""

#: Lessons that take minutes are trained to their end (`npm run test:lessons`), not only for some steps.
WHOLE = os.environ.get("TPULAB_WHOLE_LESSONS") == "1"

#: The voices are trained by plain PyTorch in `npm test`, and by torch_xla in `test:torch` and `test:lessons`.
VOICES_ON_XLA = WHOLE or os.environ.get("TPULAB_LONG_TESTS") == "1"
#: One thread: two notebooks run side by side on two cores, and PyTorch's threads wait by computing.
CPU_ONLY = """
import os
os.environ |= {"TPULAB_BACKEND": "cpu", "OMP_NUM_THREADS": "1"}
"""
VOICES_BEFORE = "" if VOICES_ON_XLA else CPU_ONLY
compiles = pytest.mark.skipif(
    not VOICES_ON_XLA, reason="plain PyTorch compiles nothing: `npm run test:torch`"
)

Execute = Callable[..., Executed]

COUNT_COMPILATIONS = (PROBES / "compilations_of_steps.py").read_text()


def compiled_in_steps(lesson: Executed, run: str) -> list[int]:
    """How many programs were compiled between the record of each step and the previous record, from step
    2 on."""
    counts = lesson.values["compilations_after"][run]
    return [after - before for before, after in pairwise(counts)]


@pytest.fixture(scope="session")
def execute(tmp_path_factory: pytest.TempPathFactory) -> Execute:
    """`execute(file, ask, **parameters)`: `ask` maps names to expressions that JSON can hold, and
    `compilations_after` is requested as well; `before` is code for the kernel before the first cell."""
    require_environment("torch-xla")

    def run(file: str, ask: dict[str, str], before: str = "", **parameters: object) -> Executed:
        requested = {**ask, "compilations_after": "compilations_after"}
        expressions = ", ".join(f"{name!r}: {expression}" for name, expression in requested.items())
        return run_notebook(
            file,
            tmp_path_factory.mktemp(Path(file).stem),
            settings=parameters,
            probe=f"import json\nprint(json.dumps({{{expressions}}}))",
            cell_deadline_s=CELL_DEADLINE_S,
            before=COUNT_COMPILATIONS + before,
        )

    return run
