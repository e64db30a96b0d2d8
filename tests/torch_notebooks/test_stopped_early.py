"""Notebooks whose training a reader stops in its first step: every later cell still runs. Notebook 04 is with
its other tests, because it resumes from their checkpoint.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..notebook_run import COMPILE_QUICKLY
from .conftest import STOP_IN_THE_FIRST_STEP, Execute

pytestmark = pytest.mark.long


def test_multi_core(execute: Execute) -> None:
    ask = {"steps": "len(losses)", "equal": "equal"}
    small = {"scaling_parts": [1], "scaling_steps": 1, "width": 0.0625}
    lesson = execute("02-multi-core.ipynb", ask, COMPILE_QUICKLY + STOP_IN_THE_FIRST_STEP, **small)
    assert (lesson.values["steps"], lesson.values["equal"]) == (1, True)
    assert lesson.text("after").startswith("after step 1: ")


def test_profiling(execute: Execute, tmp_path: Path) -> None:
    ask = {"steps": "len(losses)", "captured": "len(capture.done)"}
    settings = {"trace_folder": str(tmp_path), "mistake_steps": 1, "waiting_steps": 1, "slow_input_s": 0}
    lesson = execute("03-profiling.ipynb", ask, COMPILE_QUICKLY + STOP_IN_THE_FIRST_STEP, **settings)
    assert (lesson.values["steps"], lesson.values["captured"]) == (1, 0)
    assert lesson.text("summary").startswith("Nothing was captured")
    assert lesson.text("files") == ""
