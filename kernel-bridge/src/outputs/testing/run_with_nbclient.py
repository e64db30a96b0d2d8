"""Runs a notebook file with nbclient and prints what its cells show."""

# nbformat has no types.
# mypy: allow-untyped-calls

from __future__ import annotations

import json
import sys

import nbformat
from nbclient import NotebookClient
from nbclient_oracle import joined

if __name__ == "__main__":
    notebook = nbformat.read(sys.argv[1], as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        allow_errors=True,
        timeout=180,
        # By default nbclient continues after 4 s, without the outputs that have not arrived yet.
        iopub_timeout=180,
        startup_timeout=180,
        record_timing=False,
    ).execute()
    cells = [
        {"outputs": joined(cell.outputs), "executionCount": cell.execution_count} for cell in notebook.cells
    ]
    json.dump(cells, sys.stdout)
