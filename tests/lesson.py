"""The getting-started notebook as the tests see it: its file, its cells and what they printed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import nbformat
from nbclient import NotebookClient
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell

CHECKOUT = Path(__file__).resolve().parent.parent
NOTEBOOK = CHECKOUT / "notebooks" / "00-getting-started.ipynb"
PROBES = Path(__file__).with_name("probes")

# Generous: the machine may be busy with other tests.
CELL_DEADLINE_S = 300


@dataclass(frozen=True)
class ExecutedLesson:
    """One run of the notebook, with what its kernel knew at the end."""

    notebook: NotebookNode
    probe: dict[str, Any]
    arrays: Path

    def cell(self, cell_id: str) -> NotebookNode:
        return cast(NotebookNode, next(cell for cell in self.notebook.cells if cell.id == cell_id))

    def text(self, cell_id: str) -> str:
        """Everything that the cell printed, in order."""
        outputs = self.cell(cell_id).outputs
        return "".join(output.text for output in outputs if output.output_type == "stream")

    def lines(self, cell_id: str) -> list[str]:
        return self.text(cell_id).splitlines()

    def mime_types(self, cell_id: str) -> set[str]:
        return {mime for output in self.cell(cell_id).outputs for mime in output.get("data", {})}

    def widget_state(self, model_name: str) -> dict[str, Any]:
        """State of the only widget model of this name."""
        models = self.notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
        (state,) = [model["state"] for model in models if model["model_name"] == model_name]
        return dict(state)


def read_lesson(**parameters: float) -> NotebookNode:
    """The notebook; `parameters` are set in a cell after the one tagged `parameters`, as papermill does."""
    notebook = cast(NotebookNode, nbformat.read(NOTEBOOK, as_version=4))  # type: ignore[no-untyped-call]
    if parameters:
        place = next(
            i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])
        )
        source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
        notebook.cells.insert(place + 1, _code_cell(source, "injected-parameters"))
    return notebook


def committed_lesson() -> NotebookNode:
    """The notebook as git would commit it: a reader who has run it and saved it has outputs in the file."""
    path = NOTEBOOK.relative_to(CHECKOUT).as_posix()
    shown = subprocess.run(["git", "show", f":{path}"], cwd=CHECKOUT, capture_output=True, check=False)
    if shown.returncode != 0:
        return read_lesson()
    return cast(NotebookNode, nbformat.reads(shown.stdout.decode(), as_version=4))  # type: ignore[no-untyped-call]


async def execute_lesson(client: NotebookClient, arrays: Path) -> ExecutedLesson:
    """Runs every cell, then asks the kernel for its arrays and for the compilations that JAX logged."""
    notebook = client.nb
    ask = (PROBES / "lesson_state.py").read_text().replace("ARRAYS_PATH", repr(str(arrays)))
    lesson_cells = list(notebook.cells)
    before = _code_cell((PROBES / "compile_log.py").read_text(), "probe-before")
    after = _code_cell(ask, "probe-after")
    notebook.cells = [before, *lesson_cells, after]
    await client.async_execute()
    (answer,) = [output.text for output in after.outputs if output.output_type == "stream"]
    notebook.cells = lesson_cells
    return ExecutedLesson(notebook, json.loads(answer), arrays)


def _code_cell(source: str, cell_id: str) -> NotebookNode:
    return cast(NotebookNode, new_code_cell(source, id=cell_id))  # type: ignore[no-untyped-call]
