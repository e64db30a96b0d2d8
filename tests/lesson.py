"""The getting-started notebook as the tests see it: its file, its cells and their output."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import nbformat
from nbclient import NotebookClient
from nbformat.notebooknode import NotebookNode

from .executed_notebook import ExecutedNotebook, code_cell, read_notebook

CHECKOUT = Path(__file__).resolve().parent.parent
NOTEBOOK = CHECKOUT / "notebooks" / "00-getting-started.ipynb"
PROBES = Path(__file__).with_name("probes")

# Generous: the machine may be busy with other tests.
CELL_DEADLINE_S = 300


@dataclass(frozen=True)
class ExecutedLesson(ExecutedNotebook):
    """One run of the notebook, with the final state of its kernel."""

    probe: dict[str, Any]
    arrays: Path

    def widget_state(self, model_name: str) -> dict[str, Any]:
        """State of the only widget model of this name."""
        models = self.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
        (state,) = [model["state"] for model in models if model["model_name"] == model_name]
        return dict(state)


def read_lesson(**parameters: float) -> NotebookNode:
    return read_notebook(NOTEBOOK, parameters)


def committed_lesson() -> NotebookNode:
    """The notebook as git would commit it: a reader who has run and saved it has outputs in the file."""
    path = NOTEBOOK.relative_to(CHECKOUT).as_posix()
    shown = subprocess.run(["git", "show", f":{path}"], cwd=CHECKOUT, capture_output=True, check=False)
    if shown.returncode != 0:
        return read_lesson()
    return cast(NotebookNode, nbformat.reads(shown.stdout.decode(), as_version=4))  # type: ignore[no-untyped-call]


async def execute_lesson(client: NotebookClient, arrays: Path) -> ExecutedLesson:
    """Runs every cell, then requests the kernel's arrays and the compilations that JAX logged."""
    notebook = client.nb
    ask = (PROBES / "lesson_state.py").read_text().replace("ARRAYS_PATH", repr(str(arrays)))
    lesson_cells = list(notebook.cells)
    before = code_cell((PROBES / "compile_log.py").read_text(), "probe-before")
    after = code_cell(ask, "probe-after")
    notebook.cells = [before, *lesson_cells, after]
    await client.async_execute()
    # A line may come in pieces: the kernel flushes by the clock too.
    answer = ExecutedNotebook(notebook).text("probe-after")
    notebook.cells = lesson_cells
    return ExecutedLesson(notebook, json.loads(answer), arrays)
