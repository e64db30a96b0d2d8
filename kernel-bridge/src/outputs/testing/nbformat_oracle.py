"""Fills notebooks with nbformat itself: reads cases from a file, prints the files before and after.

A case is a list of code cells, each with id, source, old outputs, and the new outputs or null.
"""

# nbformat has no types.
# mypy: allow-untyped-calls

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat

Cell = dict[str, Any]


def files(cells: list[Cell]) -> dict[str, str]:
    """The notebook as nbformat writes it before and after its outputs were replaced."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}, "größe": [1, 2.5, None]},
        cells=[nbformat.v4.new_markdown_cell('# Title\n\nText with \\ and "quotes"', id="title")]
        + [
            nbformat.v4.new_code_cell(
                cell["source"],
                id=cell["id"],
                outputs=nbformat.from_dict(cell["old"]),
                metadata={"tags": ["a"], "outputs": []},
            )
            for cell in cells
        ],
    )
    before = nbformat.writes(notebook)
    for cell, given in zip(notebook.cells[1:], cells, strict=True):
        if given["placed"] is not None:
            cell.outputs = nbformat.from_dict(given["placed"]["outputs"])
            cell.execution_count = given["placed"]["executionCount"]
    nbformat.validate(notebook)
    return {"before": before, "after": nbformat.writes(notebook)}


def problems(paths: list[str]) -> list[str | None]:
    """The reason why each notebook file is invalid; null for a valid one."""
    found: list[str | None] = []
    for path in paths:
        try:
            nbformat.validate(json.loads(Path(path).read_text(encoding="utf-8-sig")))
            found.append(None)
        except nbformat.ValidationError as error:
            found.append(str(error))
    return found


def converted(path: str) -> Cell:
    """A notebook of an old format as nbformat converts it."""
    with Path(path).open(encoding="utf-8") as file:
        return dict(nbformat.read(file, as_version=4))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "convert":
        json.dump(converted(arguments[0]), sys.stdout)
    elif command == "validate":
        json.dump(problems(arguments), sys.stdout)
    else:
        json.dump(
            [files(case) for case in json.loads(Path(arguments[0]).read_text(encoding="utf-8"))], sys.stdout
        )
