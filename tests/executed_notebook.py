"""A notebook as the tests see it: read with the tests' settings, and the outputs of its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import nbformat
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell


@dataclass(frozen=True)
class ExecutedNotebook:
    """A notebook after its run."""

    notebook: NotebookNode

    def cell(self, cell_id: str) -> NotebookNode:
        return cast(NotebookNode, next(cell for cell in self.notebook.cells if cell.get("id") == cell_id))

    def text(self, cell_id: str) -> str:
        """Everything that the cell printed, in order."""
        outputs = self.cell(cell_id).outputs
        return "".join(output.text for output in outputs if output.output_type == "stream")

    def lines(self, cell_id: str) -> list[str]:
        return self.text(cell_id).splitlines()

    def mime_types(self, cell_id: str) -> set[str]:
        return {mime for output in self.cell(cell_id).outputs for mime in output.get("data", {})}


def read_notebook(file: Path, settings: Mapping[str, object]) -> NotebookNode:
    """`settings` are set in a separate cell after the one tagged `parameters`, as papermill does."""
    notebook = cast(NotebookNode, nbformat.read(file, as_version=4))  # type: ignore[no-untyped-call]
    if settings:
        (place,) = [
            n for n, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])
        ]
        source = "\n".join(f"{name} = {value!r}" for name, value in settings.items())
        notebook.cells.insert(place + 1, code_cell(source, "injected-parameters"))
    return notebook


def code_cell(source: str, cell_id: str) -> NotebookNode:
    return cast(NotebookNode, new_code_cell(source, id=cell_id))  # type: ignore[no-untyped-call]
